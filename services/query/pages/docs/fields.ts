import type { JsonSchema } from '@sluice/api/openapi/types'
import { code, inline, table } from './html.ts'

/** Renders a table of the fields of an object and of the objects in it, with paths as names: `errors[].index`. */
export function fieldsTable(caption: string, schema: JsonSchema): string {
  return table(caption, ['Field', 'Type', 'Rules', 'Meaning'], rows(schema, ''))
}

function rows({ properties = {}, required = [] }: JsonSchema, prefix: string): string[][] {
  return Object.entries(properties).flatMap(([name, field]) => {
    const path = prefix + name
    const row = [code(path), typeOf(field), rulesOf(field, required.includes(name)), inline(field.description ?? '')]
    return [row, ...rows(field, `${path}.`), ...(field.items ? rows(field.items, `${path}[].`) : [])]
  })
}

/** Renders the type of a value in words; a component is a link to its table. */
export function typeOf({ $ref, type = [], format, items, anyOf, oneOf = anyOf, const: only }: JsonSchema): string {
  if ($ref !== undefined) {
    const name = nameOf($ref)
    return `<a href="#${idOf(name)}">${name}</a>`
  }
  if (only !== undefined) return code(JSON.stringify(only))
  if (oneOf) return oneOf.map(typeOf).join(' or ')
  if (format === 'binary') return 'file'
  const types = typeof type === 'string' ? [type] : type
  return types.map((each) => (each === 'array' && items ? `list of ${typeOf(items)}` : each)).join(' or ')
}

/** The name in `#/components/schemas/<name>`. */
export function nameOf($ref: string): string {
  return $ref.slice($ref.lastIndexOf('/') + 1)
}

/** The anchor of a component in the page. */
export function idOf(name: string): string {
  return `object-${name}`
}

/** Renders the rules of a value as HTML. */
export function rulesOf(schema: JsonSchema, isRequired: boolean): string {
  const { items } = schema
  const rules = [
    isRequired && 'required',
    schema.default !== undefined && `default ${code(plain(schema.default))}`,
    ...limits(schema),
    items && !items.$ref && limits(items).length > 0 && `each: ${limits(items).join(', ')}`,
    schema.uniqueItems && 'each once',
  ]
  return rules.filter((rule) => typeof rule === 'string').join('; ')
}

/** Patterns in words. The pattern of nearly every text has none, because the top of the page explains it once. */
const wordsOfPatterns = new Map([
  ['^[^\\u0000]*$', undefined],
  ['^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$', 'not blank'],
])

function limits(schema: JsonSchema): string[] {
  const values = schema.enum?.filter((value) => value !== null)
  // A pattern that also accepts "" is that of an optional text, where it means absent.
  const pattern = schema.pattern?.replace(/^\^\$\|/, '')
  return [
    values && `one of ${values.map((value) => code(plain(value))).join(', ')}`,
    values ? undefined : between(schema.minLength, schema.maxLength, ' characters'),
    pattern && (wordsOfPatterns.has(pattern) ? wordsOfPatterns.get(pattern) : `pattern ${code(pattern)}`),
    between(schema.minimum, schema.maximum, ''),
    between(schema.minItems, schema.maxItems, ' items'),
  ].filter((rule) => rule !== undefined)
}

function between(min: number | undefined, max: number | undefined, unit: string): string | undefined {
  if (min === undefined && max === undefined) return undefined
  if (min === max) return `exactly ${min ?? 0}${unit}`
  if (max === undefined) return min === 1 && unit !== '' ? undefined : `at least ${min ?? 0}${unit}`
  return min === undefined ? `at most ${max}${unit}` : `${min} to ${max}${unit}`
}

function plain(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
