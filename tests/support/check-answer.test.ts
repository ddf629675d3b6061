import { describe, expect, it } from '@jest/globals'
import joi from 'joi'
import type { Operation } from '@sluice/api/operation'
import { answerChecker } from './check-answer.ts'

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
    response: { status: 200, data: joi.object({ parts: joi.array().items(part) }) },
  },
  getPart: { ...base, id: 'getPart', method: 'GET', path: '/parts/:part_id', response: { status: 200, data: part } },
  dropPart: { ...base, id: 'dropPart', method: 'DELETE', path: '/parts/:part_id', response: { status: 200 } },
}
const check = answerChecker(operations)

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

describe('the check accepts', () => {
  it.each([
    ['a success with data', 'GET', one, answer(200, success({ name: 'n', size: 1 }))],
    ['a list', 'GET', 'http://here/parts', answer(200, success({ parts: [{ name: 'n' }] }))],
    ['a success without data', 'DELETE', one, answer(200, success())],
    ['a failure', 'GET', one, answer(404, failure)],
    [
      'a failure before the credential is known',
      'GET',
      one,
      answer(401, failure, { 'content-type': 'application/json', 'x-request-id': 'r', 'www-authenticate': 'Bearer' }),
    ],
    ['a response of an unknown path', 'GET', 'http://here/parties', answer(418, {})],
    ['a response of an unknown method', 'PUT', one, answer(405, {})],
  ])('%s', (_, method, url, given) => {
    expect(() => check(method, url, given)).not.toThrow()
  })
})

describe('the check rejects', () => {
  const { 'x-request-id': _id, ...nameless } = good
  const { 'x-ratelimit-reset': _reset, ...unlimited } = good
  it.each([
    [
      'an undocumented status',
      'GET',
      one,
      answer(409, failure),
      /DELETE|GET \/parts\/p1: the answer 409 is not documented, only 200, 400/,
    ],
    [
      'an undocumented field of data',
      'GET',
      one,
      answer(200, success({ name: 'n', colour: 'red' })),
      /body\/data must NOT have additional properties/,
    ],
    [
      'an undocumented field of an object in a list',
      'GET',
      'http://here/parts',
      answer(200, success({ parts: [{ name: 'n', colour: 'red' }] })),
      /body\/data\/parts\/0 must NOT/,
    ],
    [
      'an undocumented field of the envelope',
      'DELETE',
      one,
      answer(200, { ...success(), code: 1 }),
      /body must NOT have additional/,
    ],
    ['a success without its data', 'GET', one, answer(200, success()), /must have required property 'data'/],
    ['a value of another type', 'GET', one, answer(200, success({ name: 1 })), /body\/data\/name must be string/],
    [
      'a success with `success: false`',
      'DELETE',
      one,
      answer(200, { ...success(), success: false }),
      /must be equal to constant/,
    ],
    [
      'a failure without `error`',
      'GET',
      one,
      answer(404, { success: false, timestamp: 1 }),
      /required property 'error'/,
    ],
    ['a response without X-Request-Id', 'GET', one, answer(404, failure, nameless), /lacks the header X-Request-Id/],
    [
      'a response without X-RateLimit-Reset',
      'DELETE',
      one,
      answer(200, success(), unlimited),
      /lacks the header X-RateLimit-Reset/,
    ],
    ['a 429 without Retry-After', 'GET', one, answer(429, failure), /lacks the header Retry-After/],
    [
      'another media type',
      'GET',
      one,
      answer(404, failure, { ...good, 'content-type': 'text/html' }),
      /has the media type text\/html/,
    ],
  ])('%s', (_, method, url, given, message) => {
    expect(() => check(method, url, given)).toThrow(message)
  })
})
