/**
 * The mistakes in the query of an engine's URL. An unknown parameter is a mistake, because it would be ignored:
 * `?clsuter=` for one.
 */
export function parameterMistakes(given: URLSearchParams, known: readonly string[]): string[] {
  return [...new Set(given.keys())].flatMap((name) => {
    if (!known.includes(name)) return [`unknown parameter "${name}" (known: ${known.join(', ')})`]
    return given.getAll(name).length > 1 ? [`the parameter "${name}" is given twice`] : []
  })
}
