import type { ServerResponse } from 'node:http'
import { test } from '@jest/globals'
import { methodNotAllowed } from '@sluice/http/http-error'
import { isServerError, sendError } from '@sluice/http/send-response'
import {
  AppError,
  conflict,
  insufficientScope,
  internalMessage,
  invalidApiKey,
  invalidField,
  invalidFormat,
  missingField,
  notFound,
  rateLimited,
  siteNotAllowed,
  tooLarge,
  unavailable,
  unsupportedMediaType,
} from '@sluice/runtime/errors'
import { expectGolden, joinBlocks, lineJson } from './golden.ts'

const errors: Readonly<Record<string, unknown>> = {
  'a missing field': missingField('criteria.conditions.0.operator'),
  'an invalid field': invalidField('timestamp', 'must be a number'),
  'an invalid format': invalidFormat('body is not valid JSON'),
  'an invalid key': invalidApiKey(),
  'a missing scope': insufficientScope('admin'),
  'a missing scope of two that would do': insufficientScope('cohorts:read', 'stats:read'),
  'a foreign site': siteNotAllowed(),
  'nothing found': notFound(),
  'no site found': notFound('Site'),
  'a conflict': conflict('Key is revoked'),
  'too large a body': tooLarge('Body is larger than 32768 bytes'),
  'another media type': unsupportedMediaType('Content-Type must be application/json'),
  'a passed limit': rateLimited(17),
  'an engine that is unavailable': unavailable('Postgres: refused', new Error('refused')),
  'an engine that is unavailable for longer': unavailable('Postgres: refused', undefined, 30),
  'headers of its own': methodNotAllowed(['GET']),
  'data of its own': new AppError('invalid_field', {
    message: 'Invalid field: events',
    data: { accepted: 0, rejected: 1 },
  }),
  'a failure of ours with words': new AppError('internal', { message: 'Nobody reads this', internal: 'the reason' }),
  'an error of another kind': new TypeError('x is undefined'),
  'what is no error at all': 'text',
}

test('errors have the status, headers and body of the golden file', () => {
  const blocks = Object.entries(errors).map(([heading, error]) => {
    const lines: string[] = []
    const response = {
      headersSent: false,
      shouldKeepAlive: true,
      hasHeader: () => false,
      req: { complete: true },
      writeHead: (status: number, headers: object) => lines.push(`${status} ${lineJson(headers)}`),
      end: (body: string) => lines.push(body.replace(/"timestamp":\d+/, '"timestamp":<now>')),
    }
    sendError(response as unknown as ServerResponse, { 'X-Request-Id': 'golden' }, error, { now: Date.now() })
    const loggedText = isServerError(error) ? 'the error itself' : 'undefined'
    return { heading, text: [...lines, `logged: ${loggedText}`, `for operators: ${internalMessage(error)}`].join('\n') }
  })
  expectGolden('http/errors.txt', joinBlocks(blocks))
})
