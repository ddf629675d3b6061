import type joi from 'joi'
import type { JsonSchema } from './openapi-types.ts'

/**
 * The JSON Schema (draft 2020-12) of what a joi schema takes (`input`) or of what it describes (`output`): joi's own
 * conversion, with what that leaves out:
 *
 * - `.meta()` holds the keywords that a custom rule stands for, e.g. `{ maxLength: 64 }`. A custom rule without is an
 *   error: the document would say that anything goes.
 * - `.example()`s; values that mean "absent" (`.empty()`); null among the values of an enumeration.
 * - A schema with an `.id()` is put into `components` under it, and referred to.
 */
export function toJsonSchema(
  schema: joi.Schema,
  mode: 'input' | 'output',
  components: Record<string, JsonSchema>,
): JsonSchema {
  const { $defs: _, ...json } = schema['~standard'].jsonSchema[mode]({ target: 'draft-2020-12' })
  return amend(json, schema.describe(), components)
}

/** What of joi's `describe()` is read here. */
interface Description {
  flags?: { id?: string; presence?: string; insensitive?: boolean; empty?: { allow?: unknown[] } }
  metas?: JsonSchema[]
  rules?: { name: string; args?: { regex?: string } }[]
  allow?: unknown[]
  examples?: unknown[]
  keys?: Record<string, Description>
  items?: Description[]
}

function amend(json: JsonSchema, joi: Description, components: Record<string, JsonSchema>): JsonSchema {
  const { flags = {}, metas = [], rules = [], items: [item] = [], keys = {} } = joi
  if (metas.length === 0 && rules.some(({ name }) => name === 'custom')) {
    throw new Error(`a custom rule has no .meta() that tells what it takes: ${JSON.stringify(joi)}`)
  }
  if (rules.some(({ args }) => args?.regex !== undefined && !args.regex.endsWith('/'))) {
    throw new Error(`JSON Schema has no flags for patterns: ${JSON.stringify(joi)}`)
  }
  let amended = withKeywords(json, metas)
  const words = [json.description, ...metas.map(({ description }) => description)]
  if (flags.insensitive) words.push('Upper and lower case are the same.')
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
  if (absent.includes('') || amended.enum || !typesOf(amended).includes('string')) delete amended.minLength
  if (absent.includes(null)) amended = { ...amended, type: [...typesOf(amended), 'null'] }
  if (amended.enum && typesOf(amended).includes('null')) amended.enum = [...amended.enum, null]

  if (flags.id === undefined) return amended
  return { $ref: shared(components, flags.id, amended) }
}

/** Each `.meta()` adds to those before it; one that names a type starts over: the value is another than joi thinks. */
function withKeywords(json: JsonSchema, metas: readonly JsonSchema[]): JsonSchema {
  const start = metas.findLastIndex(({ type }) => type !== undefined)
  const kept = start < 0 ? json : 'default' in json ? { default: json.default } : {}
  return Object.assign({}, kept, ...metas.slice(Math.max(0, start))) as JsonSchema
}

function typesOf({ type = [] }: JsonSchema): string[] {
  return typeof type === 'string' ? [type] : type
}

function shared(components: Record<string, JsonSchema>, id: string, schema: JsonSchema): string {
  const known = components[id]
  if (known && JSON.stringify(known) !== JSON.stringify(schema)) throw new Error(`two schemas are called ${id}`)
  components[id] = schema
  return `#/components/schemas/${id}`
}
