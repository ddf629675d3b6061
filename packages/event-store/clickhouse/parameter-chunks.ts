/**
 * ClickHouse accepts 128 KiB in a percent-encoded parameter. A byte may take six characters there: `'` becomes
 * `%5C%27`.
 */
const parameterBytesMax = 20_000

/**
 * Splits texts into lists that each fit into one parameter of type `Array(String)`. Without texts, the result is one
 * empty list.
 */
export function parameterChunks(values: readonly string[]): readonly string[][] {
  const chunks: string[][] = [[]]
  let bytes = 0
  for (const value of values) {
    // Two quotes and a comma.
    const valueBytes = Buffer.byteLength(value) + 3
    bytes += valueBytes
    if (bytes > parameterBytesMax) {
      chunks.push([])
      bytes = valueBytes
    }
    chunks.at(-1)?.push(value)
  }
  return chunks
}
