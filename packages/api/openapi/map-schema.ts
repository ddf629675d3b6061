import type { JsonSchema } from './types.ts'

/** Returns the schema after `change` of each schema in it, the innermost first. */
export function mapSchema(schema: JsonSchema, change: (schema: JsonSchema) => JsonSchema): JsonSchema {
  const one = (inner: JsonSchema): JsonSchema => mapSchema(inner, change)
  const { properties, patternProperties, additionalProperties, items, anyOf, oneOf } = schema
  return change({
    ...schema,
    ...(properties && { properties: mapValues(properties, one) }),
    ...(patternProperties && { patternProperties: mapValues(patternProperties, one) }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: one(additionalProperties) }),
    ...(items && { items: one(items) }),
    ...(anyOf && { anyOf: anyOf.map(one) }),
    ...(oneOf && { oneOf: oneOf.map(one) }),
  })
}

/** Returns the record after `change` of each value. */
export function mapValues<T, U>(record: Readonly<Record<string, T>>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]))
}
