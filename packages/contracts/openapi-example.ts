import type { JsonSchema } from './openapi-types.ts'

/**
 * A value that a schema takes, from its examples: of an object the required properties and those with an example of
 * their own. Undefined for what has neither example nor value to choose.
 */
export function exampleOf(schema: JsonSchema, schemas: Readonly<Record<string, JsonSchema>>): unknown {
  const { $ref, examples, enum: values, items, properties, required = [] } = schema
  if ($ref !== undefined) return exampleOf(referred($ref, schemas), schemas)
  if (examples) return examples[0]
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
export function referred($ref: string, schemas: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const schema = schemas[$ref.slice('#/components/schemas/'.length)]
  if (!schema) throw new Error(`no schema for ${$ref}`)
  return schema
}
