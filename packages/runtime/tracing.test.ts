import { beforeEach, expect, test } from '@jest/globals'
import type { Span, SpanStatus, Tracer } from '@opentelemetry/api'
import { AppError, failureKind, internalError } from './errors.ts'
import { setTracer, traced } from './tracing.ts'

let statuses: SpanStatus[] = []

beforeEach(() => {
  statuses = []
  const span = { setStatus: (status: SpanStatus) => statuses.push(status), end: () => undefined } as unknown as Span
  setTracer({ startSpan: () => span } as unknown as Tracer)
})

test('a failed span has the kind of the error and its codes, not its text, which may quote a value', async () => {
  const cause = Object.assign(new Error('cannot compile re2: (ada@example.org'), { code: '427' })
  const error = internalError(`ClickHouse: ${cause.message}`, cause)
  const wrapped = new AppError('query_too_large', {
    message: 'Query too large',
    internal: error.internal,
    cause: error,
  })
  for (const each of [error, wrapped, new TypeError('no site ada@example.org')])
    await expect(traced('work', {}, () => Promise.reject(each))).rejects.toBe(each)
  expect(statuses.map(({ message }) => message)).toEqual([
    'internal: 427',
    'query_too_large: internal: 427',
    'TypeError',
  ])
})

test.each([
  ['a text', 'unknown'],
  [Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:8123'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
])('the kind of %p is %s', (error, kind) => expect(failureKind(error)).toBe(kind))
