import { type Config, type Environment, loadConfig, type Variables } from './config.ts'
import { describeMisspeltName, misspeltNames } from './misspelt-variables.ts'
import { describeFormerName, formerNamesInUse } from './renamed-variables.ts'

/**
 * `loadConfig` for a command; `warn` prints a line about each former name that is in use, and about each misspelt name.
 * Throws ConfigError.
 */
export function loadCommandConfig<V extends Variables>(
  variables: V,
  environment: Environment,
  warn: (line: string) => void,
): Config<V> {
  for (const name of formerNamesInUse(variables, environment)) warn(`Warning: ${describeFormerName(name)}.`)
  for (const name of misspeltNames(variables, environment)) warn(`Warning: ${describeMisspeltName(name)}`)
  return loadConfig(variables, environment)
}
