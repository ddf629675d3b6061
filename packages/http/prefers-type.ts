/**
 * Whether the `Accept` header (RFC 9110, 12.5.1) prefers the media type to JSON: it names the type, and the weight of
 * the type is not below the weight of JSON. A range such as `application/*`, or the range of all types, gives a weight
 * to JSON alone, because JSON is the default of every operation.
 */
export function prefersType(accept: string, type: string): boolean {
  const weights = new Map(accept.toLowerCase().split(',').map(readRange))
  const weight = weights.get(type) ?? 0
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0
  return weight > 0 && weight >= json
}

/** The media range and its weight, by default 1. */
function readRange(text: string): [range: string, weight: number] {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))
  return [range, weight === undefined ? 1 : Number(weight.slice(2)) || 0]
}
