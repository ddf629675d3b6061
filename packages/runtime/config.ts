import type { Schema } from 'joi'

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
  /** The value is never printed, not even in an error. */
  secret?: true
}

export type Variables = Readonly<Record<string, Variable<unknown>>>

/** The values of a set of variables, by name. */
export type Config<V extends Variables> = {
  readonly [Name in keyof V]: V[Name] extends { optional: true } ? ValueOf<V[Name]> | undefined : ValueOf<V[Name]>
}
type ValueOf<V> = V extends Variable<infer T> ? T : never

export type Environment = Readonly<Record<string, string | undefined>>

/** All mistakes of a configuration; `mistakes` has one line for operators each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[]) {
    super(
      `The configuration has ${mistakes.length} ${mistakes.length === 1 ? 'mistake' : 'mistakes'}:\n${mistakes.map((line) => `  - ${line}`).join('\n')}`,
    )
    this.mistakes = mistakes
  }
}

/**
 * Reads and checks all variables before anything opens. An empty value counts as unset.
 * Throws ConfigError with one line per variable that is missing or wrong.
 */
export function loadConfig<V extends Variables>(variables: V, environment: Environment): Config<V> {
  const values: Record<string, unknown> = {}
  const mistakes: string[] = []
  for (const [name, variable] of Object.entries(variables)) {
    const set = environment[name]
    const text = set === undefined || set === '' ? variable.default : set
    if (text === undefined) {
      if (variable.optional !== true) mistakes.push(`${name} is required: ${variable.description}`)
      continue
    }
    const result = variable.schema.validate(text, { errors: { label: false } })
    if (result.error) {
      const shown = variable.secret === true ? '' : ` (it is ${JSON.stringify(text)})`
      // Some of joi's reasons quote the value.
      const reason =
        variable.secret === true && result.error.message.includes(text) ? 'is not valid' : result.error.message
      mistakes.push(`${name} ${reason}${shown}: ${variable.description}`)
    } else {
      try {
        variable.check?.(text)
      } catch (error) {
        // A check may name the variable itself.
        const reason = error instanceof Error ? error.message.replace(`${name}: `, '') : 'is not valid'
        mistakes.push(`${name} ${reason}: ${variable.description}`)
      }
    }
    values[name] = result.value as unknown
  }
  if (mistakes.length > 0) throw new ConfigError(mistakes)
  return values as Config<V>
}
