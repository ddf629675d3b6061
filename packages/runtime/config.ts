import type { Schema } from 'joi'
import { describeMisspeltName, misspeltNames } from './misspelt-variables.ts'
import { formerNamesInUse, isSet, type RenamedVariables, renamedVariables } from './renamed-variables.ts'
import { readSecretFile } from './secret-file.ts'

/** One environment variable, as main.ts reads it and docs/configuration.md lists it. */
export interface Variable<T> {
  /** Joi schema of the text, which converts it to a value of type `T`. */
  schema: Schema<T>
  /** One sentence for operators, with the unit if there is one. */
  description: string
  /** Text of the default; absent: the variable is required, unless `optional`. */
  default?: string
  /** May be unset; the value is then undefined. */
  optional?: true
  /** A check beyond the schema's: throws an Error whose message continues the variable's name. */
  check?: (text: string) => unknown
  /** The name of a variable that must be set if this one is, and must not be set otherwise. */
  pairedWith?: string
  /** The value is never printed, not even in an error, and may be in a file, which `<NAME>_FILE` names. */
  secret?: true
}

/** The variables of a service by name. */
export type Variables = Readonly<Record<string, Variable<unknown>>>

/** The values of a set of variables, by name. */
export type Config<V extends Variables> = {
  readonly [Name in keyof V]: V[Name] extends { optional: true } ? ValueOf<V[Name]> | undefined : ValueOf<V[Name]>
}
type ValueOf<V> = V extends Variable<infer T> ? T : never

/** The environment of a process, e.g. `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>

/** All mistakes of a configuration; `mistakes` has a text for operators each, whose lines but the first are indented. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[]) {
    const count = `${mistakes.length} ${mistakes.length === 1 ? 'mistake' : 'mistakes'}`
    const list = mistakes.map((mistake) => `  - ${mistake}\n`).join('')
    super(`The configuration has ${count}:\n${list}docs/configuration.md lists all variables.`)
    this.mistakes = mistakes
  }
}

/**
 * Reads and checks all variables before anything opens. An empty value counts as unset. A secret may be in a file,
 * which `<NAME>_FILE` names; a renamed variable is read under its former name too. Throws ConfigError with one text per
 * variable that is missing or wrong, one per pair of variables of which only one is set, and then one per misspelt name.
 */
export function loadConfig<V extends Variables>(
  variables: V,
  environment: Environment,
  renamed: RenamedVariables = renamedVariables,
): Config<V> {
  const values: Record<string, unknown> = {}
  const mistakes: string[] = []
  const named = withPresentNames(variables, environment, renamed, mistakes)
  for (const [name, variable] of Object.entries(variables)) {
    const found = findText(name, variable, named, mistakes)
    if (found === undefined) continue
    const { text, origin } = found
    const result = variable.schema.validate(text, { errors: { label: false } })
    if (result.error) {
      const shown = variable.secret === true ? '' : ` (it is ${JSON.stringify(text)})`
      // Some of joi's reasons quote the value.
      const reason =
        variable.secret === true && result.error.message.includes(text) ? 'is not valid' : result.error.message
      mistakes.push(`${name} ${reason}${shown}${origin}${descriptionLine(variable)}`)
    } else {
      try {
        variable.check?.(text)
      } catch (error) {
        const reason = error instanceof Error ? error.message : 'is not valid'
        // A check may name the variable itself.
        const subject = reason.startsWith(`${name}: `) ? '' : `${name} `
        mistakes.push(`${subject}${reason}${origin}${descriptionLine(variable)}`)
      }
    }
    values[name] = result.value as unknown
  }
  for (const [name, { pairedWith }] of Object.entries(variables)) {
    if (pairedWith !== undefined && isGiven(name, variables, named) !== isGiven(pairedWith, variables, named)) {
      mistakes.push(`${name} and ${pairedWith} must be set both, or neither`)
    }
  }
  if (mistakes.length > 0) {
    throw new ConfigError([...mistakes, ...misspeltNames(variables, environment, renamed).map(describeMisspeltName)])
  }
  return values as Config<V>
}

function descriptionLine({ description }: Variable<unknown>): string {
  return `\n    ${description}`
}

/**
 * The environment with the values of former names under the present ones. Both may be set to the same value, so that
 * one environment serves builds from before and after the renaming.
 */
function withPresentNames(
  variables: Variables,
  environment: Environment,
  renamed: RenamedVariables,
  mistakes: string[],
): Environment {
  const named: Record<string, string | undefined> = {}
  for (const { former, present } of formerNamesInUse(variables, environment, renamed)) {
    if (isSet(environment[present]) && environment[present] !== environment[former]) {
      mistakes.push(
        `${former} is the former name of ${present}, and both are set, to different values: unset ${former}`,
      )
    }
    named[present] = environment[former]
  }
  return Object.keys(named).length === 0 ? environment : { ...environment, ...named }
}

/** Whether a variable has a value. A secret also has one if the name of its file is set. */
function isGiven(name: string, variables: Variables, environment: Environment): boolean {
  const hasFile = variables[name]?.secret === true && isSet(environment[`${name}_FILE`])
  return hasFile || isSet(environment[name])
}

/** The text of a variable, and where it is from as a phrase; undefined if it has none, which may be a mistake. */
function findText(
  name: string,
  variable: Variable<unknown>,
  environment: Environment,
  mistakes: string[],
): { text: string; origin: string } | undefined {
  const fileName = `${name}_FILE`
  const [set, file] = [environment[name], variable.secret === true ? environment[fileName] : undefined]
  if (isSet(set) && isSet(file)) {
    mistakes.push(`${name} and ${fileName} are both set: unset one of them`)
    return undefined
  }
  if (isSet(file)) {
    try {
      return { text: readSecretFile(file), origin: ` (it is read from ${fileName})` }
    } catch (error) {
      mistakes.push(`${fileName} ${error instanceof Error ? error.message : 'is not valid'}`)
      return undefined
    }
  }
  const text = isSet(set) ? set : variable.default
  if (text !== undefined) return { text, origin: '' }
  if (variable.optional !== true) mistakes.push(`${name} is required${descriptionLine(variable)}`)
  return undefined
}
