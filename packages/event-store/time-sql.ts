/** SQL of a time in Unix ms, a column or a parameter, as DateTime64. */
export function timeSql(ms: string): string {
  return `fromUnixTimestamp64Milli(${ms}, 'UTC')`
}
