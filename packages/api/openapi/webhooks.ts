import { webhookLimits } from '@sluice/contracts/webhooks'
import { deliveries } from '../deliveries.ts'
import { toJsonSchema } from './schema.ts'
import type { JsonSchema, OpenApiDocument, OperationObject, Parameter } from './types.ts'

const seconds = webhookLimits.attemptTimeoutMs / 1_000

/**
 * No section of the operations: openapi-generator makes a class for each tag, and that of the deliveries would replace
 * that of the operations.
 */
const tag = 'Deliveries'

/**
 * The section `webhooks` of the document: the requests that Sluice sends to receivers, and the answers that it expects.
 * Adds the schemas of the bodies to `schemas`.
 */
export function describeWebhooks(schemas: Record<string, JsonSchema>): OpenApiDocument['webhooks'] {
  return Object.fromEntries(
    Object.entries(deliveries).map(([kind, { id, summary, receivers, body }]) => {
      const schema = toJsonSchema(body, 'output', schemas)
      const operation: OperationObject = {
        operationId: id,
        tags: [tag],
        summary,
        description: `${receivers} A delivery arrives at least once: answer 2xx and do nothing if its \`x-svc-delivery\` is known.`,
        security: [],
        parameters: [...parameters],
        requestBody: {
          description: 'The same bytes in every attempt.',
          required: true,
          content: { 'application/json': { schema } },
        },
        responses,
      }
      return [kind, { post: operation }]
    }),
  )
}

const signature: JsonSchema = { type: 'string', pattern: '^[0-9a-f]{64}$' }

/** The headers that services/worker/webhooks/attempt.ts sends. */
const parameters: readonly Parameter[] = [
  header('x-svc-delivery', { type: 'string' }, 'Id of the delivery, the same in every attempt.'),
  header('x-svc-timestamp', { type: 'integer', format: 'int64' }, 'Unix ms of this attempt.'),
  header(
    'x-svc-signature',
    signature,
    'HMAC-SHA-256 of `<x-svc-timestamp>.<body>` with the secret, in lower-case hex.',
  ),
  {
    name: 'x-svc-signature-previous',
    in: 'header',
    description: 'The same with the previous secret, until `previous_secret_expires_at` of the webhook.',
    schema: signature,
  },
]

function header(name: string, schema: JsonSchema, description: string): Parameter {
  return { name, in: 'header', required: true, description, schema }
}

const responses: OperationObject['responses'] = {
  '2XX': {
    description: `The delivery has arrived. The answer must be complete within ${seconds} s.`,
    headers: {},
    content: {},
  },
  410: {
    description: 'The delivery is not sent again, and the webhook is switched off.',
    headers: {},
    content: {},
  },
  default: {
    description: `The delivery is sent again, up to eleven times in about four days. No answer within ${seconds} s is a failure, too, and so is a redirect.`,
    headers: {
      'Retry-After': {
        description: 'Seconds, or the date, before which it is not sent again: at most twice the usual delay.',
        schema: { type: 'string' },
      },
    },
    content: {},
  },
}
