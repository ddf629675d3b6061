// Compares every JSON response that a test gets from an operation of the interface with the OpenAPI document.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { openApiDocument } from '@sluice/api/openapi/document'
import type { Header, JsonSchema, OpenApiDocument, Reference, Response } from '@sluice/api/openapi/types'
import { operations } from '@sluice/api/operations'

export interface GivenAnswer {
  status: number
  headers: Headers
  body: unknown
}

/** Throws an error with the differences between a response and the document of the operation at `method` and `url`. */
export type CheckAnswer = (method: string, url: string, answer: GivenAnswer) => void

/** Returns a check against a document; each schema is compiled when it is first needed. */
export function answerChecker({ paths, components }: Pick<OpenApiDocument, 'paths' | 'components'>): CheckAnswer {
  const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true })
  ajv.addVocabulary(['components'])
  const validators = new Map<JsonSchema, ValidateFunction>()
  // Paths without parameters take precedence over paths with parameters.
  const patterns = Object.entries(paths)
    .map(([path, item]) => ({ pattern: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`), item }))
    .sort((a, b) => Number(a.pattern.source.includes('[')) - Number(b.pattern.source.includes('[')))

  function validator(schema: JsonSchema): ValidateFunction {
    const known = validators.get(schema)
    if (known) return known
    const compiled = ajv.compile({ ...schema, components: { schemas: components.schemas } })
    validators.set(schema, compiled)
    return compiled
  }

  function problemsOf(response: Response, { headers, body }: GivenAnswer): string[] {
    const [type = ''] = (headers.get('content-type') ?? '').split(';')
    const media = response.content[type]
    if (!media) return [`has the media type ${type}`]
    const validate = validator(media.schema)
    const isValid = validate(body)
    return [
      ...missingHeaders(response, components.headers, headers),
      ...(isValid ? [] : [`has a body that is wrong: ${ajv.errorsText(validate.errors, { dataVar: 'body' })}`]),
    ]
  }

  return (method, url, answer) => {
    const { pathname } = new URL(url)
    const item = patterns.find(({ pattern }) => pattern.test(pathname))?.item
    const operation = item?.[method.toLowerCase() as keyof typeof item]
    if (!operation) return
    const documented = operation.responses[answer.status]
    const problems = documented
      ? problemsOf('$ref' in documented ? resolveReference(documented, components.responses) : documented, answer)
      : [`is not documented, only ${Object.keys(operation.responses).join(', ')} are`]
    if (problems.length === 0) return
    throw new Error(
      `${method} ${pathname}: the answer ${answer.status} ${problems.join('; ')}\n(/openapi.json, operation ${operation.operationId}; the body was ${JSON.stringify(answer.body)})`,
    )
  }
}

let check: CheckAnswer | undefined

/** Compares a response with the document of the table of operations. */
export const checkAnswer: CheckAnswer = (...call) => {
  check ??= answerChecker(openApiDocument(operations, { version: 'test' }))
  check(...call)
}

function missingHeaders(response: Response, shared: Record<string, Header>, headers: Headers): string[] {
  return Object.entries(response.headers)
    .filter(
      ([name, header]) => ('$ref' in header ? resolveReference(header, shared) : header).required && !headers.has(name),
    )
    .map(([name]) => `lacks the header ${name}`)
}

function resolveReference<T>({ $ref }: Reference, shared: Record<string, T>): T {
  const found = shared[$ref.slice($ref.lastIndexOf('/') + 1)]
  if (found === undefined) throw new Error(`${$ref} is not there`)
  return found
}
