import { describe, expect, jest, test } from '@jest/globals'
import joi from 'joi'
import { jsonBody, type Operation } from '@sluice/api/operation'
import { apiRequest } from '../../tests/support/api-request.ts'
import { handle } from './handle.ts'
import type { FileResult } from './route.ts'

interface Body {
  name: string
  count: number
}

const base = {
  id: 'test',
  method: 'POST',
  path: '/things/:thing_id/parts/:part_id',
  section: 'Tests',
  summary: 'Tests the binding.',
  scope: 'admin',
  rights: { of: 'none' },
} as const

const body = joi.object<Body>({ name: joi.string().required(), count: joi.number().default(1) })
const result = joi.object<{ total: number }>({ total: joi.number().required() })

const operation = {
  ...base,
  query: joi.object<{ page: number }>({ page: joi.number().default(0) }).prefs({ convert: true }),
  body: jsonBody(body),
  response: { status: 201, data: result },
} as const satisfies Operation

const json = (value: unknown) => ({ bytes: Buffer.from(JSON.stringify(value)), type: 'application/json' })

test('the compiler refuses untyped schemas, wrong results and unknown fields', () => {
  // The check is `tsc`: each line of the function has a @ts-expect-error, which fails when the line compiles.
  expect(refusedByTypes).toBeInstanceOf(Function)
})

describe('a handler that is bound to an operation', () => {
  test('receives the validated query, body and path parameters, and its data gets the status of the table', async () => {
    const log = jest.fn()
    const route = handle(operation, async ({ params, query, body, credential, log: addFields }) => {
      addFields({ part: params.part_id })
      expect(params).toStrictEqual({ thing_id: 'a', part_id: 'b' })
      expect(query).toStrictEqual({ page: 2 })
      expect(body).toStrictEqual({ name: 'n', count: 1 })
      expect(credential.keyId).toBe('key_test')
      return Promise.resolve({ total: body.count + query.page })
    })
    const handled = await route.handle(
      apiRequest({ params: { thing_id: 'a', part_id: 'b' }, query: { page: '2' }, body: json({ name: 'n' }), log }),
    )
    expect(handled).toStrictEqual({ status: 201, data: { total: 3 } })
    expect(log).toHaveBeenCalledWith({ part: 'b' })
  })

  test.each([
    [
      'a query that is invalid',
      { query: { page: 'x' }, body: json({ name: 'n' }) },
      'Invalid field: page must be a number',
    ],
    ['a body that is invalid', { body: json({}) }, 'Missing required field: name'],
    [
      'a body that is not JSON',
      { body: { bytes: Buffer.from('{'), type: '' } },
      'Invalid format: body is not valid JSON',
    ],
  ])('is not called for %s', async (_, parts, message) => {
    const handler = jest.fn(() => Promise.resolve({ total: 1 }))
    await expect(handle(operation, handler).handle(apiRequest(parts))).rejects.toMatchObject({ message })
    expect(handler).not.toHaveBeenCalled()
  })

  test('returns data with headers if the operation declares headers, and nothing if it declares no data', async () => {
    const withHeaders = { ...base, response: { status: 200, data: result, headers: { 'X-Own': 'Own.' } } } as const
    const withHeadersRoute = handle(withHeaders, () =>
      Promise.resolve({ data: { total: 1 }, headers: { 'X-Own': 'a' } }),
    )
    expect(await withHeadersRoute.handle(apiRequest())).toStrictEqual({
      status: 200,
      data: { total: 1 },
      headers: { 'X-Own': 'a' },
    })
    const without = handle({ ...base, response: { status: 202 } }, () => Promise.resolve())
    expect(await without.handle(apiRequest())).toStrictEqual({ status: 202 })
  })

  test('receives a query only if the operation has a schema for it; no other takes a parameter', async () => {
    const route = handle({ ...base, response: { status: 200 } }, ({ query }) => {
      expect(query).toBeUndefined()
      return Promise.resolve()
    })
    await route.handle(apiRequest())
    const message = 'Invalid field: any is not a known parameter'
    await expect(route.handle(apiRequest({ query: { any: 'thing' } }))).rejects.toMatchObject({ message })
  })

  test('must not be idempotent with a file or a multipart body, which are not stored', () => {
    const file = { ...base, idempotent: true, response: { status: 200, file: ['text/csv'] } } as const
    expect(() => handle(file, () => Promise.resolve({} as FileResult))).toThrow("test can't be idempotent")
  })
})

/* eslint-disable @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access -- What does not compile has no type. */
/** Lines that must not compile; the function is never called. */
function refusedByTypes(): void {
  const untyped = { ...base, body: jsonBody(joi.object({ name: joi.string() })), response: { status: 200 } } as const
  // @ts-expect-error -- A schema without a type makes the body `never`, instead of `any`.
  handle(untyped, ({ body: sent }) => Promise.resolve(sent.name).then(() => undefined))

  const unknownData = { ...base, response: { status: 200, data: joi.object({ total: joi.number() }) } } as const
  // @ts-expect-error -- A result schema without a type accepts no result.
  handle(unknownData, () => Promise.resolve({ total: 1 }))

  // @ts-expect-error -- The result has another type than the schema of the response.
  handle(operation, () => Promise.resolve({ total: '1' }))

  // @ts-expect-error -- The operation has data, and the handler returns none.
  handle(operation, () => Promise.resolve())

  // @ts-expect-error -- The body has no such field.
  handle(operation, ({ body: sent }) => Promise.resolve({ total: sent.size }))

  // @ts-expect-error -- The path has no such parameter.
  handle(operation, ({ params }) => Promise.resolve({ total: params.other_id.length }))

  // @ts-expect-error -- A public operation has no credential.
  handle({ ...operation, scope: 'public' }, ({ credential }) => Promise.resolve({ total: credential.keyId.length }))

  // @ts-expect-error -- The operation declares a header, and the handler does not return it.
  handle({ ...base, response: { status: 200, headers: { 'X-Own': 'Own.' } } }, () => Promise.resolve({ headers: {} }))

  // @ts-expect-error -- The response is a file.
  handle({ ...base, response: { status: 200, file: ['text/csv'] } }, () => Promise.resolve({ total: 1 }))
}
