import { readFileSync } from 'node:fs'

/** The root of this repository. */
export const ownRoot = new URL('../../', import.meta.url)

/** The Node flags with which a clone's package.json starts a program, so that tests and benchmarks use them, too. */
export function nodeFlags(program: string, root = ownRoot): string[] {
  const file = new URL('package.json', root)
  const { scripts } = JSON.parse(readFileSync(file, 'utf8')) as { scripts: Record<string, string> }
  const script = Object.values(scripts).find((text) => text.includes(' exec node ') && text.endsWith(` ${program}`))
  if (script === undefined) throw new Error(`no script of package.json starts ${program}`)
  return script.split(' ').filter((word) => word.startsWith('--'))
}
