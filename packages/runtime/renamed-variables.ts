/** Variables that have another name now, `former → present`. */
export type RenamedVariables = ReadonlyMap<string, string>

/**
 * A variable that is renamed gets a line here, and works under its former name, with a warning, in this minor version
 * and the next one. The line is removed in the version after that.
 */
export const renamedVariables: RenamedVariables = new Map()

/** A variable that is set under its former name. */
export interface FormerName {
  former: string
  present: string
}

/** The former names, and those of their files, of `variables` that are set; an empty value counts as unset. */
export function formerNamesInUse(
  variables: Readonly<Record<string, { description: string; secret?: true }>>,
  environment: Readonly<Record<string, string | undefined>>,
  renamed: RenamedVariables = renamedVariables,
): FormerName[] {
  return [...renamed]
    .flatMap(([former, present]) => {
      const variable = variables[present]
      if (variable === undefined) return []
      const names = [{ former, present }]
      return variable.secret === true ? [...names, { former: `${former}_FILE`, present: `${present}_FILE` }] : names
    })
    .filter(({ former }) => isSet(environment[former]))
}

/** One sentence for operators. */
export function describeFormerName({ former, present }: FormerName): string {
  return `${former} is the former name of ${present}, and a later release will not read it: rename it`
}

/** Whether a variable has a value: an empty one counts as unset. */
export function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== ''
}
