import { mapSchema, mapValues } from './map-schema.ts'
import type { JsonSchema, OpenApiDocument, Reference, Response } from './types.ts'

/**
 * Returns the document with open objects in its responses and in deliveries to webhooks, because later versions add
 * fields. Objects of requests stay closed, because unknown fields are refused; those that also occur in responses are
 * open.
 *
 * An open object has no `additionalProperties`, although openapi-generator's clients for Go and Java (okhttp-gson) then
 * refuse unknown fields unless it gets `disallowAdditionalPropertiesIfNotPresent=false`
 * (docs/http-interface.md#absent-and-unknown-fields). No option helps against the effects of `true`: openapi-typescript
 * accepts any misspelt field of an answer, and the classes of openapi-generator for Kotlin extend HashMap.
 */
export function withOpenAnswers(document: OpenApiDocument): OpenApiDocument {
  const { paths, webhooks, components } = document
  const names = namesIn([
    webhooks,
    components.responses,
    ...Object.values(paths).flatMap((item) => Object.values(item).map(({ responses }) => responses)),
  ])
  // The set grows while it is read.
  for (const name of names) for (const inner of namesIn(components.schemas[name])) names.add(inner)
  return {
    ...document,
    paths: mapValues(paths, (item) =>
      mapValues(item, (operation) => ({ ...operation, responses: mapValues(operation.responses, withOpenContent) })),
    ),
    components: {
      ...components,
      schemas: Object.fromEntries(
        Object.entries(components.schemas).map(([name, schema]) => [name, names.has(name) ? opened(schema) : schema]),
      ),
      responses: mapValues(components.responses, (response) => withOpenContent(response) as Response),
    },
  }
}

function withOpenContent(response: Response | Reference): Response | Reference {
  if ('$ref' in response) return response
  return { ...response, content: mapValues(response.content, (media) => ({ ...media, schema: opened(media.schema) })) }
}

function opened(schema: JsonSchema): JsonSchema {
  return mapSchema(schema, ({ additionalProperties, ...open }) =>
    additionalProperties === false || additionalProperties === undefined ? open : { ...open, additionalProperties },
  )
}

const reference = /"\$ref":"#\/components\/schemas\/(\w+)"/g

/** The components that a part of the document refers to. */
function namesIn(part: unknown): Set<string> {
  return new Set([...JSON.stringify(part).matchAll(reference)].map(([, name = '']) => name))
}
