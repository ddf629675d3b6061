/**
 * The mistakes in the query of an engine's URL. An unknown parameter is a mistake, because it would be ignored:
 * `?clsuter=` for one. Its name is not quoted, because it may be part of a password that was not percent-encoded.
 */
export function parameterMistakes(given: URLSearchParams, known: readonly string[]): string[] {
  const isAnyUnknown = [...given.keys()].some((name) => !known.includes(name))
  const repeated = known.filter((name) => given.getAll(name).length > 1)
  return [
    ...(isAnyUnknown ? [`unknown parameter (known: ${known.join(', ')})`] : []),
    ...repeated.map((name) => `the parameter "${name}" is given twice`),
  ]
}
