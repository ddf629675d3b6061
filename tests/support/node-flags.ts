import { readFileSync } from 'node:fs'

/** The flags with which package.json starts a program: tests and benchmarks run it as users do. */
export function nodeFlags(program: string): string[] {
  const file = new URL('../../package.json', import.meta.url)
  const { scripts } = JSON.parse(readFileSync(file, 'utf8')) as { scripts: Record<string, string> }
  const script = Object.values(scripts).find((text) => text.includes(' exec node ') && text.endsWith(` ${program}`))
  if (script === undefined) throw new Error(`no script of package.json starts ${program}`)
  return script.split(' ').filter((word) => word.startsWith('--'))
}
