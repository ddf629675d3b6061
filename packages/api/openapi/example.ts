import type { JsonSchema } from './types.ts'

/**
 * A value that a schema accepts, built from its examples, default or enumeration. An object has its required properties
 * and those with an example. Undefined for a schema without any of these.
 */
export function exampleOf(schema: JsonSchema, schemas: Readonly<Record<string, JsonSchema>>): unknown {
  const { $ref, examples, enum: values, items, properties, required = [] } = schema
  if (examples) return examples[0]
  if ($ref !== undefined) return exampleOf(resolveReference($ref, schemas), schemas)
  if (schema.default !== undefined) return schema.default
  if (values) return values[0]
  if (items) return [exampleOf(items, schemas)]
  if (!properties) return undefined
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([name, property]) => required.includes(name) || property.examples)
      .map(([name, property]) => [name, exampleOf(property, schemas)]),
  )
}

/** The component that `#/components/schemas/<name>` names. */
export function resolveReference($ref: string, schemas: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const schema = schemas[$ref.slice('#/components/schemas/'.length)]
  if (!schema) throw new Error(`no schema for ${$ref}`)
  return schema
}
