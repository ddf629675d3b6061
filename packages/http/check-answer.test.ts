import { describe, expect, it } from '@jest/globals'
import { openApiDocument } from '@sluice/contracts/openapi'
import type { Operation } from '@sluice/contracts/operation'
import joi from 'joi'
import { answerChecker } from './check-answer.test-support.ts'

const part = joi.object({ name: joi.string().required(), size: joi.number() }).id('Part')
const base = {
  section: 'Parts',
  summary: 'Does.',
  scope: 'stats:read',
  limit: 'queries',
  rights: { of: 'none' },
} as const
const operations: Record<string, Operation> = {
  listParts: {
    ...base,
    id: 'listParts',
    method: 'GET',
    path: '/parts',
    answer: { status: 200, data: joi.object({ parts: joi.array().items(part) }) },
  },
  getPart: { ...base, id: 'getPart', method: 'GET', path: '/parts/:part_id', answer: { status: 200, data: part } },
  dropPart: { ...base, id: 'dropPart', method: 'DELETE', path: '/parts/:part_id', answer: { status: 200 } },
}
const check = answerChecker(openApiDocument(operations, { version: '1' }))

const good = {
  'content-type': 'application/json; charset=utf-8',
  'x-request-id': 'r',
  'x-ratelimit-limit': '10',
  'x-ratelimit-remaining': '9',
  'x-ratelimit-reset': '1',
}
const answer = (status: number, body: object, headers: Record<string, string> = good) => ({
  status,
  headers: new Headers(headers),
  body,
})
const success = (data?: object) => ({ success: true, timestamp: 1, ...(data && { data }) })
const failure = { success: false, error: 'no', timestamp: 1 }
const one = 'http://here/parts/p1?x=y'

describe('an answer as documented passes', () => {
  it.each([
    ['a success with data', 'GET', one, answer(200, success({ name: 'n', size: 1 }))],
    ['a list', 'GET', 'http://here/parts', answer(200, success({ parts: [{ name: 'n' }] }))],
    ['a success without data', 'DELETE', one, answer(200, success())],
    ['a failure', 'GET', one, answer(404, failure)],
    [
      'a failure before the credential is known',
      'GET',
      one,
      answer(401, failure, { 'content-type': 'application/json', 'x-request-id': 'r' }),
    ],
    ['what is no operation: another path', 'GET', 'http://here/parties', answer(418, {})],
    ['what is no operation: another method', 'PUT', one, answer(405, {})],
  ])('%s', (_, method, url, given) => {
    expect(() => {
      check(method, url, given)
    }).not.toThrow()
  })
})

describe('an answer that is not as documented fails, and says how', () => {
  const { 'x-request-id': _id, ...nameless } = good
  const { 'x-ratelimit-reset': _reset, ...unlimited } = good
  it.each([
    [
      'a status',
      'GET',
      one,
      answer(409, failure),
      /DELETE|GET \/parts\/p1: the answer 409 is not documented, only 200, 400/,
    ],
    [
      'a field of data',
      'GET',
      one,
      answer(200, success({ name: 'n', colour: 'red' })),
      /body\/data must NOT have additional properties/,
    ],
    [
      'a field of a listed object',
      'GET',
      'http://here/parts',
      answer(200, success({ parts: [{ name: 'n', colour: 'red' }] })),
      /body\/data\/parts\/0 must NOT/,
    ],
    ['a field of the envelope', 'DELETE', one, answer(200, { ...success(), code: 1 }), /body must NOT have additional/],
    ['data that is missing', 'GET', one, answer(200, success()), /must have required property 'data'/],
    ['a type', 'GET', one, answer(200, success({ name: 1 })), /body\/data\/name must be string/],
    [
      'a success that calls itself none',
      'DELETE',
      one,
      answer(200, { ...success(), success: false }),
      /must be equal to constant/,
    ],
    [
      'a failure without its text',
      'GET',
      one,
      answer(404, { success: false, timestamp: 1 }),
      /required property 'error'/,
    ],
    ['no X-Request-Id', 'GET', one, answer(404, failure, nameless), /lacks the header X-Request-Id/],
    ['no X-RateLimit-Reset', 'DELETE', one, answer(200, success(), unlimited), /lacks the header X-RateLimit-Reset/],
    ['a 429 without Retry-After', 'GET', one, answer(429, failure), /lacks the header Retry-After/],
    [
      'a media type',
      'GET',
      one,
      answer(404, failure, { ...good, 'content-type': 'text/html' }),
      /has the media type text\/html/,
    ],
  ])('%s', (_, method, url, given, message) => {
    expect(() => {
      check(method, url, given)
    }).toThrow(message)
  })
})
