/** A JSON object that was parsed. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a parsed value is a JSON object: no list, and no number whose digits `parseExactly` keeps in an object. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
}
