import type { Context } from '@sluice/cli/context'
import { openTerminal } from '@sluice/cli/output/terminal'
import { commandsOf, createProgram, pathOf } from '@sluice/cli/program'

const begin = '<!-- commands: written by npm run docs -->'
const end = '<!-- /commands -->'

/** docs/command-line.md with the help of every command between the two comments. Throws when `page` lacks them. */
export function withCommandReference(page: string): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/command-line.md lacks the comments ${begin} and ${end}`)
  return `${page.slice(0, from + begin.length)}\n\n${commandReference()}\n\n${page.slice(to)}`
}

/** The help text of each command that does something else than explain others, below a heading with its name. */
function commandReference(): string {
  let printed = ''
  const terminal = openTerminal(process.stdout, process.stderr)
  const context: Context = {
    env: {},
    input: process.stdin,
    // A terminal of a usual width, whatever the one of this process.
    terminal: {
      ...terminal,
      width: 100,
      print: (text) => {
        printed += `${text}\n`
      },
    },
    signal: new AbortController().signal,
  }
  return commandsOf(createProgram(context, ''))
    .filter((command) => command.commands.length === 0 && command.name() !== 'help')
    .map((command) => {
      printed = ''
      command.outputHelp()
      return `### ${pathOf(command)}\n\n\`\`\`\n${printed}\`\`\``
    })
    .join('\n\n')
}
