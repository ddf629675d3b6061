// Compares every JSON response that a test gets from an operation of the interface with the OpenAPI document.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { openApiDocument } from '@sluice/api/openapi/document'
import type {
  Header,
  JsonSchema,
  OpenApiDocument,
  OperationObject,
  Reference,
  Response,
} from '@sluice/api/openapi/types'
import type { Operation } from '@sluice/api/operation'
import { operations } from '@sluice/api/operations'

type Components = OpenApiDocument['components']

/** What the document says of the responses of one operation. */
interface Documented {
  responses: OperationObject['responses']
  components: Components
}

export interface GivenAnswer {
  status: number
  headers: Headers
  body: unknown
}

/** Throws an error with the differences between a response and the document of the operation at `method` and `url`. */
export type CheckAnswer = (method: string, url: string, answer: GivenAnswer) => void

/**
 * Returns a check against the documents of operations: each operation is described, and each of its schemas compiled,
 * when a response is first checked against it.
 */
export function answerChecker(operations: Readonly<Record<string, Operation>>): CheckAnswer {
  const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true, validateFormats: false })
  ajv.addVocabulary(['components'])
  const validators = new Map<JsonSchema, ValidateFunction>()
  const documented = new Map<Operation, Documented>()
  // Paths without parameters take precedence over paths with parameters.
  const patterns = Object.values(operations)
    .map((operation) => ({ operation, pattern: new RegExp(`^${operation.path.replace(/:\w+/g, '[^/]+')}$`) }))
    .sort((a, b) => Number(a.pattern.source.includes('[')) - Number(b.pattern.source.includes('[')))

  function documentOf(operation: Operation): Documented {
    const known = documented.get(operation)
    if (known) return known
    const { paths, components } = openApiDocument({ [operation.id]: operation }, { version: 'test', closed: true })
    const [object] = Object.values(paths).flatMap((item) => Object.values(item))
    const made = { responses: object?.responses ?? {}, components }
    documented.set(operation, made)
    return made
  }

  function validator(schema: JsonSchema, { schemas }: Components): ValidateFunction {
    const known = validators.get(schema)
    if (known) return known
    const compiled = ajv.compile({ ...schema, components: { schemas } })
    validators.set(schema, compiled)
    return compiled
  }

  function problemsOf(response: Response, components: Components, { headers, body }: GivenAnswer): string[] {
    const [type = ''] = (headers.get('content-type') ?? '').split(';')
    const media = response.content[type]
    if (!media) return [`has the media type ${type}`]
    const validate = validator(media.schema, components)
    const isValid = validate(body)
    return [
      ...missingHeaders(response, components.headers, headers),
      ...(isValid ? [] : [`has a body that is wrong: ${ajv.errorsText(validate.errors, { dataVar: 'body' })}`]),
    ]
  }

  return (method, url, answer) => {
    const { pathname } = new URL(url)
    const path = patterns.find(({ pattern }) => pattern.test(pathname))?.operation.path
    const operation = Object.values(operations).find(
      (each) => each.path === path && each.method === method.toUpperCase(),
    )
    if (!operation) return
    const { responses, components } = documentOf(operation)
    const response = responses[answer.status]
    const problems = response
      ? problemsOf('$ref' in response ? resolveReference(response, components.responses) : response, components, answer)
      : [`is not documented, only ${Object.keys(responses).join(', ')} are`]
    if (problems.length === 0) return
    throw new Error(
      `${method} ${pathname}: the answer ${answer.status} ${problems.join('; ')}\n(/openapi.json, operation ${operation.id}; the body was ${JSON.stringify(answer.body)})`,
    )
  }
}

let check: CheckAnswer | undefined

/** Compares a response with the document of the table of operations. */
export const checkAnswer: CheckAnswer = (...call) => {
  check ??= answerChecker(operations)
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
