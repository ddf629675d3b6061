// The part of OpenAPI 3.1 that the document uses (https://spec.openapis.org/oas/v3.1.1).

/** JSON Schema, draft 2020-12. */
export interface JsonSchema {
  $ref?: string
  /** Only in a `.meta()` (schema.ts). */
  $defs?: Record<string, JsonSchema>
  type?: string | string[]
  format?: 'int64' | 'double' | 'binary'
  description?: string
  default?: unknown
  examples?: readonly unknown[]
  const?: unknown
  enum?: readonly unknown[]
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  pattern?: string
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  items?: JsonSchema
  minProperties?: number
  properties?: Record<string, JsonSchema>
  patternProperties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: boolean | JsonSchema
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  contentMediaType?: string
}

export interface Reference {
  $ref: string
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  description?: string
  schema: JsonSchema
  example?: unknown
}

export interface Header {
  description: string
  required?: boolean
  schema: JsonSchema
}

export interface MediaType {
  schema: JsonSchema
  example?: unknown
}

export interface RequestBody {
  description: string
  required: boolean
  content: Record<string, MediaType>
}

export interface Response {
  description: string
  headers: Record<string, Header | Reference>
  content: Record<string, MediaType>
}

export interface Server {
  url: string
}

export interface OperationObject {
  operationId: string
  tags: [string]
  summary: string
  description: string
  security: Record<string, string[]>[]
  /** Only where they differ from those of the document. */
  servers?: Server[]
  parameters?: Parameter[]
  requestBody?: RequestBody
  responses: Record<string, Response | Reference>
}

export interface SecurityScheme {
  type: 'http' | 'apiKey'
  description: string
  scheme?: 'bearer' | 'basic'
  in?: 'query' | 'cookie'
  name?: string
}

export interface OpenApiDocument {
  openapi: '3.1.1'
  info: {
    title: string
    version: string
    summary: string
    description: string
    license: { name: string; identifier: string }
  }
  servers: Server[]
  tags: { name: string }[]
  paths: Record<string, Partial<Record<'get' | 'post' | 'put' | 'delete', OperationObject>>>
  /** Requests that receivers get, by the kind of the delivery. */
  webhooks: Record<string, { post: OperationObject }>
  components: {
    securitySchemes: Record<string, SecurityScheme>
    schemas: Record<string, JsonSchema>
    headers: Record<string, Header>
    responses: Record<string, Response>
  }
}
