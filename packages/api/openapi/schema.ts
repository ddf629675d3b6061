import type joi from 'joi'
import { mapSchema } from './map-schema.ts'
import type { JsonSchema } from './types.ts'

/**
 * The JSON Schema (draft 2020-12) of the values that a joi schema accepts (`input`) or describes (`output`): joi's own
 * conversion with these additions:
 *
 * - `.meta()` has the keywords that describe a custom rule, e.g. `{ maxLength: 64 }`. A custom rule without `.meta()` is
 *   an error, because the document would accept any value.
 * - What generators of clients need is stated (`complete`).
 * - Examples, values that mean "absent" (`.empty()`), and null among the values of an enumeration are included.
 * - `$defs` of a `.meta()` are added to `components`.
 * - A schema with an `.id()` is added to `components` under that name, and referenced.
 */
export function toJsonSchema(
  schema: joi.Schema,
  mode: 'input' | 'output',
  components: Record<string, JsonSchema>,
): JsonSchema {
  const { $defs: _, ...json } = schema['~standard'].jsonSchema[mode]({ target: 'draft-2020-12' })
  return complete(amend(json, schema.describe(), components))
}

/** The largest value of a 32-bit integer, which generators of clients choose for an integer without a format. */
const int32Max = 2 ** 31 - 1

/**
 * Returns the schema with what generators of clients need to choose a type:
 *
 * - the `format` of each number. Without one they choose 32 bits, which hold neither a time in milliseconds nor the
 *   digits of a share.
 * - `additionalProperties` of each object with any fields, which would be an object without fields otherwise; it has
 *   the values' schema where joi states it as the pattern of any name.
 * - `items` of each list with any items.
 */
function complete(json: JsonSchema): JsonSchema {
  return mapSchema(json, ({ patternProperties, ...schema }) => {
    const { maximum = Infinity, oneOf } = schema
    const types = typesOf(schema)
    const ofAnyName = patternProperties?.['.*']
    return {
      ...schema,
      ...(patternProperties && !ofAnyName && { patternProperties }),
      ...(types.includes('integer') && maximum > int32Max && { format: 'int64' }),
      ...(types.includes('number') && { format: 'double' }),
      ...(types.includes('object') && !oneOf && { additionalProperties: schema.additionalProperties ?? true }),
      ...(ofAnyName && { additionalProperties: ofAnyName }),
      ...(types.includes('array') && { items: schema.items ?? {} }),
    }
  })
}

/** The part of joi's `describe()` that is used here. */
interface Description {
  flags?: { id?: string; presence?: string; insensitive?: boolean; empty?: { allow?: unknown[] } }
  metas?: JsonSchema[]
  rules?: { name: string; args?: { regex?: string } }[]
  allow?: unknown[]
  examples?: unknown[]
  keys?: Record<string, Description>
  items?: Description[]
}

// eslint-disable-next-line complexity -- A flat list with one line for each feature of joi that its JSON Schema lacks.
function amend(json: JsonSchema, joi: Description, components: Record<string, JsonSchema>): JsonSchema {
  const { flags = {}, metas = [], rules = [], items: [item] = [], keys = {} } = joi
  if (metas.length === 0 && rules.some(({ name }) => name === 'custom')) {
    throw new Error(`a custom rule has no .meta() that tells what it takes: ${JSON.stringify(joi)}`)
  }
  if (rules.some(({ args }) => args?.regex !== undefined && !args.regex.endsWith('/'))) {
    throw new Error(`JSON Schema has no flags for patterns: ${JSON.stringify(joi)}`)
  }
  const { $defs = {}, ...described } = withKeywords(json, metas)
  for (const [id, definition] of Object.entries($defs)) shared(components, id, definition)
  let amended: JsonSchema = described
  const words = [json.description, ...metas.map(({ description }) => description)]
  if (flags.insensitive) words.push('Case-insensitive.')
  const description = words.filter((each) => each !== undefined).join(' ')
  if (description !== '') amended.description = description
  if (joi.examples) amended.examples = joi.examples
  if (json.properties && amended.properties === json.properties) {
    amended.properties = Object.fromEntries(
      Object.entries(json.properties).map(([key, property]) => [key, amend(property, keys[key] ?? {}, components)]),
    )
  }
  if (json.items && amended.items === json.items && item) amended.items = amend(json.items, item, components)

  const absent = flags.presence === 'required' ? [] : (flags.empty?.allow ?? [])
  // joi states a `minLength` of 1 for every text that does not allow "", also where "" means absent and is accepted.
  // For an enumeration or another type it says nothing.
  if (absent.includes('') || amended.enum || !typesOf(amended).includes('string')) delete amended.minLength
  // An enumeration does not get a "": openapi-generator's client for Kotlin would not compile.
  if (absent.includes('') && amended.pattern !== undefined) amended.pattern = orEmpty(amended.pattern)
  // A `.meta()` with a type replaces the null that joi adds for `.allow(null)`.
  const types = typesOf(amended)
  const lacksNull = types.length > 0 && !types.includes('null') && joi.allow?.includes(null)
  if (absent.includes(null) || lacksNull) amended = { ...amended, type: [...types, 'null'] }
  if (amended.enum && typesOf(amended).includes('null')) amended.enum = [...amended.enum, null]

  if (flags.id === undefined) return amended
  return { $ref: shared(components, flags.id, amended) }
}

/**
 * Merges the `.meta()` of a schema in their order; one with a `type` replaces the earlier keywords and those of joi.
 */
function withKeywords(json: JsonSchema, metas: readonly JsonSchema[]): JsonSchema {
  const start = metas.findLastIndex(({ type }) => type !== undefined)
  const kept = start < 0 ? json : 'default' in json ? { default: json.default } : {}
  return Object.assign({}, kept, ...metas.slice(Math.max(0, start))) as JsonSchema
}

/** The pattern, extended by the empty text if that does not match. */
function orEmpty(pattern: string): string {
  return new RegExp(pattern, 'u').test('') ? pattern : `^$|${pattern}`
}

function typesOf({ type = [] }: JsonSchema): string[] {
  return typeof type === 'string' ? [type] : type
}

function shared(components: Record<string, JsonSchema>, id: string, incomplete: JsonSchema): string {
  const schema = complete(incomplete)
  const known = components[id]
  if (known && JSON.stringify(known) !== JSON.stringify(schema)) throw new Error(`two schemas are called ${id}`)
  components[id] = schema
  return `#/components/schemas/${id}`
}
