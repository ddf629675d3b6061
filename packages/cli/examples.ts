/** Examples for the end of a help text: commands, each with what it does. */
export function examples(list: readonly (readonly [command: string, effect: string])[]): string {
  return ['', 'Examples:', ...list.flatMap(([command, effect]) => [`  # ${effect}`, `  ${command}`])].join('\n')
}
