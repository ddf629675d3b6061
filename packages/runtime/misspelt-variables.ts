import { isSet, type RenamedVariables, renamedVariables } from './renamed-variables.ts'
import { suggestNames } from './suggest-names.ts'

const prefix = 'SLUICE_'
/** With the prefix, each name would be so long that two errors are allowed in it: HOME would be taken for HOST. */
const withoutPrefix = (name: string): string => name.slice(prefix.length)

/** A name in the environment that no variable has, and the variables that it may be meant to set. */
export interface MisspeltName {
  found: string
  meant: readonly string[]
}

/**
 * The names that are set and are typing errors of variables that are not set. Only similar names are found, because an
 * environment may also hold the variables of other services, and Kubernetes adds names such as `SLUICE_QUERY_PORT`.
 */
export function misspeltNames(
  variables: Readonly<Record<string, { description: string; secret?: true }>>,
  environment: Readonly<Record<string, string | undefined>>,
  renamed: RenamedVariables = renamedVariables,
): MisspeltName[] {
  const names = Object.entries(variables).flatMap(([name, { secret }]) => (secret ? [name, `${name}_FILE`] : [name]))
  const unset = names.filter((name) => !isSet(environment[name])).map(withoutPrefix)
  const isKnown = (name: string): boolean => names.includes(name) || renamed.has(name.replace(/_FILE$/, ''))
  return Object.keys(environment)
    .filter((found) => found.startsWith(prefix) && isSet(environment[found]) && !isKnown(found))
    .map((found) => ({ found, meant: suggestNames(withoutPrefix(found), unset).map((name) => prefix + name) }))
    .filter(({ meant }) => meant.length > 0)
}

/** One sentence for operators. */
export function describeMisspeltName({ found, meant }: MisspeltName): string {
  return `${found} is set, but no such variable is read: did you mean ${meant.join(' or ')}?`
}
