import type { JsonSchema } from './types.ts'

const timestamp: JsonSchema = { type: 'integer', format: 'int64', description: 'Unix ms.' }

// `success` has no type: a boolean constant with one becomes an enumeration that does not compile in the clients of
// openapi-generator for Java and Kotlin.

/** The envelope of a successful response; `data`: the schema of its result, absent for a response without one. */
export function envelope(data?: JsonSchema): JsonSchema {
  return {
    type: 'object',
    properties: { success: { const: true }, timestamp, ...(data && { data }) },
    required: ['success', 'timestamp', ...(data ? ['data'] : [])],
    additionalProperties: false,
  }
}

/** The envelope of an error; `data`: the schema of what it adds. Segment's dialect adds `code` and `message`. */
export function errorEnvelope({ data, dialect }: { data?: JsonSchema; dialect?: 'segment' | undefined }): JsonSchema {
  const text: JsonSchema = { type: 'string', minLength: 1 }
  return {
    type: 'object',
    properties: {
      success: { const: false },
      error: text,
      ...(dialect === 'segment' && { code: text, message: text }),
      timestamp,
      ...(data && { data }),
    },
    required: ['success', 'error', ...(dialect === 'segment' ? ['code', 'message'] : []), 'timestamp'],
    additionalProperties: false,
  }
}
