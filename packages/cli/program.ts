import { Command, type Help } from 'commander'
import { suggestNames } from '@sluice/runtime/suggest-names'
import { addDoctor } from './commands/doctor.ts'
import { addImport } from './commands/import.ts'
import { addKeys } from './commands/keys.ts'
import { addLogin } from './commands/login.ts'
import { addSend } from './commands/send.ts'
import { addStats } from './commands/stats.ts'
import { addTail } from './commands/tail.ts'
import { addTypes } from './commands/types.ts'
import type { Context } from './context.ts'
import { examples } from './examples.ts'

/**
 * The commands of `sluice`. An error of the call is thrown as commander's CommanderError, its message already written.
 */
export function createProgram(context: Context, version: string): Command {
  const program = new Command('sluice')
    .description('Sends events to Sluice, asks for statistics, and manages imports and API keys.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ subcommandTerm: termOf })
    .configureOutput({
      writeOut: (text) => context.terminal.print(text.trimEnd()),
      writeErr: (text) => context.terminal.note(text.trimEnd()),
      outputError: (text, write) => write(asSentence(text, program)),
      getOutHelpWidth: () => Math.min(context.terminal.width, 100),
    })
    .exitOverride()
    // Commander suggests words that have little in common with the given one; asSentence suggests names.
    .showSuggestionAfterError(false)
    .addHelpText(
      'after',
      [
        examples([
          ['sluice doctor --site shop', 'see whether everything works'],
          ['sluice send signup --site shop --user ada', 'send an event'],
          ['sluice stats visitors --site shop --period 7d --group-by day', 'visitors by day'],
        ]),
        '',
        'Environment: SLUICE_URL, SLUICE_API_KEY, SLUICE_SITE, SLUICE_COLLECT_URL, NO_COLOR.',
        'Exit codes: 0 done, 1 failed, 2 wrong usage, 4 API key missing or refused, 130 interrupted, 141 output not read.',
      ].join('\n'),
    )
  addSend(program, context)
  addTail(program, context)
  addImport(program, context)
  addStats(program, context)
  addTypes(program, context)
  addKeys(program, context)
  addDoctor(program, context)
  addLogin(program, context)
  for (const group of [program, ...commandsOf(program).filter(({ commands }) => commands.length > 0)]) addHelp(group)
  for (const command of commandsOf(program)) {
    const outputError = (text: string, write: (text: string) => void): void => write(asSentence(text, command))
    command.helpOption('-h, --help', 'print this help').configureOutput({ outputError })
  }
  return program
}

/**
 * Adds the command `help` to a program or a group of commands. That of commander takes one word, and a wrong one counts
 * as none.
 */
function addHelp(group: Command): void {
  group
    .helpCommand(false)
    .command('help')
    .description('print the help of a command')
    .argument('[command...]', 'the words of the command')
    .action((words: readonly string[]) => {
      let explained = group
      for (const word of words) {
        const named = explained.commands.find((each) => each.name() === word)
        explained = named ?? explained.error(`unknown command '${word}'`)
      }
      explained.outputHelp()
    })
}

/** Every command and its subcommands, in the order of the help. */
export function commandsOf(program: Command): Command[] {
  return program.commands.flatMap((command) => [command, ...commandsOf(command)])
}

/** `sluice keys list`. */
export function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

function termOf(this: Help, command: Command): string {
  return [
    command.name(),
    ...command.registeredArguments.map((each) => (each.required ? `<${each.name()}>` : `[${each.name()}]`)),
  ].join(' ')
}

/** Commander's message of a wrong call as one line, with the names that may be meant. */
function asSentence(text: string, command: Command): string {
  const line = text.trim().replace(/^error: /, '')
  const names = suggestionsFor(line, command)
  const sentence =
    names.length > 0 ? `${line}: did you mean ${names.join(' or ')}?` : line.replace(/[^.?!]$/, (last) => `${last}.`)
  return `sluice: ${sentence} See "${pathOf(command)} --help".`
}

function suggestionsFor(message: string, command: Command): string[] {
  const [, option] = /^unknown option '--(.*)'$/s.exec(message) ?? []
  const [, name] = /^unknown command '(.*)'$/s.exec(message) ?? []
  const help = command.createHelp()
  if (option !== undefined) {
    const options = help.visibleOptions(command).flatMap(({ long }) => (long === undefined ? [] : [long.slice(2)]))
    return suggestNames(option, options).map((each) => `--${each}`)
  }
  return name === undefined
    ? []
    : suggestNames(
        name,
        help.visibleCommands(command).map((each) => each.name()),
      )
}
