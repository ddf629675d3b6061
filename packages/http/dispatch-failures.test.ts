import { describe, expect, test } from '@jest/globals'
import { AppError, notFound, unavailable } from '@sluice/runtime/errors'
import { useTestRoutes } from '../../tests/support/use-test-routes.ts'
import type { HandlerResult } from './route.ts'

const testRoutes = useTestRoutes()
const { key, devKey, reader, revoked, unknown } = testRoutes.keys
const { sendRequest, post } = testRoutes

describe('a failure', () => {
  test('that is not an AppError is answered 500 without details and logged with its cause', async () => {
    const cause = new Error('relation "secrets" does not exist')
    testRoutes.handle = () => Promise.reject(new TypeError('canary: internals', { cause }))
    const { status, body } = await sendRequest('/things/a', { headers: { 'X-Request-Id': 'fails' } })
    expect(status).toBe(500)
    expect(body).toStrictEqual({ success: false, error: 'Internal server error', timestamp: expect.any(Number) })
    const line = testRoutes.service.lines().find(({ request_id }) => request_id === 'fails')
    expect(line).toMatchObject({ level: 'error', status: 500, route: '/things/:id', key_id: 'key_writer' })
    expect(JSON.stringify(line)).toContain('canary: internals')
    expect(JSON.stringify(line)).toContain('relation \\"secrets\\" does not exist')
  })

  test('that is thrown synchronously, or by the JSON encoding, is answered 500', async () => {
    testRoutes.handle = () => {
      throw new Error('canary')
    }
    expect((await sendRequest('/things/a')).status).toBe(500)
    // JSON.stringify throws for a bigint.
    testRoutes.handle = () => Promise.resolve({ status: 200, data: 1n })
    expect((await sendRequest('/things/a')).status).toBe(500)
  })

  test('with status 500 does not show its message to the client', async () => {
    testRoutes.handle = () => Promise.reject(new AppError('internal', { message: 'canary', internal: 'canary' }))
    const { body } = await sendRequest('/things/a')
    expect(body.error).toBe('Internal server error')
  })

  test('that is temporary is answered 503 with Retry-After, and its reason is logged only', async () => {
    testRoutes.handle = () => Promise.reject(unavailable('Postgres: canary', new Error('ECONNREFUSED'), 7))
    const { status, headers, body } = await sendRequest('/things/a', { headers: { 'X-Request-Id': 'away' } })
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toBe('7')
    expect(body).toStrictEqual({
      success: false,
      error: 'Service temporarily unavailable',
      timestamp: expect.any(Number),
    })
    const line = testRoutes.service.lines().find(({ request_id }) => request_id === 'away')
    expect(line).toMatchObject({ level: 'error', status: 503, error: 'Postgres: canary' })
    // Under overload there are thousands of these errors: a stack would cost more than the rest of the request.
    expect(line).not.toHaveProperty('err')
  })
})

describe('the log', () => {
  test('of a quiet route has successes at level debug and errors at their usual level', async () => {
    const levelOf = async (id: string, answer: () => Promise<HandlerResult>): Promise<unknown> => {
      testRoutes.handle = answer
      await sendRequest('/quiet', { headers: { 'X-Request-Id': id } })
      return testRoutes.service.lines().find(({ request_id }) => request_id === id)?.level
    }
    expect(await levelOf('taken', () => Promise.resolve({ status: 202 }))).toBe('debug')
    expect(await levelOf('bad', () => Promise.reject(new AppError('invalid_field', { message: 'bad' })))).toBe('info')
    expect(await levelOf('down', () => Promise.reject(unavailable('down')))).toBe('error')
  })

  test('has one line for each request, with the fields that the handler adds', async () => {
    const before = testRoutes.service.lines().length
    testRoutes.handle = ({ log }) => {
      log({ site_id: 'shop', events: 2 })
      log({ bytes: 10 })
      return Promise.resolve({ status: 202 })
    }
    await sendRequest('/things/a?x=1', { headers: { 'X-Request-Id': 'logged' } })
    const lines = testRoutes.service.lines().slice(before)
    expect(lines).toStrictEqual([
      {
        level: 'info',
        time: expect.any(Number),
        service: 'test',
        version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
        request_id: 'logged',
        method: 'GET',
        route: '/things/:id',
        status: 202,
        duration_ms: expect.any(Number),
        key_id: 'key_writer',
        site_id: 'shop',
        events: 2,
        bytes: 10,
        msg: 'request',
      },
    ])
  })

  test('contains the key id and the reason of a refusal', async () => {
    await sendRequest('/scope/admin', { headers: { 'X-Request-Id': 'refused' } })
    expect(testRoutes.service.lines()).toContainEqual(
      expect.objectContaining({
        level: 'info',
        request_id: 'refused',
        status: 403,
        key_id: 'key_writer',
        error: 'Insufficient scope: requires admin',
      }),
    )
  })

  test('never contains a key, wherever in the request it was sent', async () => {
    testRoutes.handle = () => Promise.reject(new Error('fails'))
    for (const sentKey of [key, devKey, unknown, revoked, reader]) {
      await sendRequest(`/things/a?api_key=${sentKey}`, { key: '' })
      await sendRequest(`/things/${sentKey}?api_key=${sentKey}`, {
        key: sentKey,
        headers: { Referer: `?api_key=${sentKey}` },
      })
      await sendRequest(`/nothing?api_key=${sentKey}`, { key: sentKey })
      await sendRequest(`/things?api_key=${sentKey}`, { key: '' })
      await sendRequest(`/things/%?api_key=${sentKey}`, { key: '' })
      await post({ key: '', headers: { Authorization: `Basic ${sentKey}` }, body: sentKey })
      await post({ key: sentKey, headers: { 'Content-Type': sentKey }, body: sentKey })
    }
    for (const sentKey of [key, devKey, unknown, revoked, reader]) {
      expect(testRoutes.service.text()).not.toContain(sentKey)
      expect(testRoutes.service.text()).not.toContain(sentKey.slice(9, 30))
    }
  })

  describe('shows of what the handler adds', () => {
    const id = 'exp_01KAK5V6Z0F3N8Q2R7T4W9X1YB'
    test.each([
      ['an id', { export_id: id }, { export_id: id }],
      ['a site', { site_id: 'shop' }, { site_id: 'shop' }],
      ['a number', { events: 2, is_new: true }, { events: 2, is_new: true }],
      ['an internal message, all of it', { error: 'a'.repeat(500) }, { error: 'a'.repeat(500) }],
      ['a site of more characters than a site has, 128', { site_id: 'a'.repeat(9_000) }, { site_id: 'a'.repeat(128) }],
      ['a key in place of a site, nothing', { site_id: `x${key}` }, { site_id: '[redacted]' }],
      ['a key in place of an id, nothing', { export_id: devKey }, { export_id: '[redacted]' }],
      ['a key in a message, nothing', { error: `${key} is not known` }, { error: '[redacted]' }],
      // A session token.
      ['another text in place of an id, nothing', { export_id: 'aB1-_'.repeat(8) }, { export_id: '[not an id]' }],
    ])('%s', async (_, added, shown) => {
      testRoutes.handle = ({ log }) => {
        log(added)
        return Promise.resolve({ status: 200 })
      }
      const before = testRoutes.service.lines().length
      await sendRequest('/things/a')
      expect(testRoutes.service.lines().slice(before)).toMatchObject([shown])
    })
  })

  test('never contains a key that an error repeats', async () => {
    testRoutes.handle = () => Promise.reject(notFound(key))
    const before = testRoutes.service.lines().length
    await sendRequest('/things/a')
    expect(testRoutes.service.lines().slice(before)).toMatchObject([{ status: 404, error: '[redacted]' }])
  })
})

test('requests are counted by route, method and status, and all unknown paths share one series', async () => {
  await sendRequest('/things/one')
  await sendRequest('/things/two')
  for (let n = 0; n < 5; n++) await sendRequest(`/nothing/${n}`)
  const text = await testRoutes.service.metrics.metrics()
  expect(text).toMatch(/sluice_http_requests_total\{route="\/things\/:id",method="GET",status="200"\} \d+/)
  expect(text).toMatch(/sluice_http_requests_total\{route="",method="GET",status="404"\} \d+/)
  expect(text).not.toContain('nothing')
  // From the start, so that the first failures of a process increase a series.
  expect(text).toMatch(/sluice_http_requests_total\{route="\/things\/:id\/parts\/:part",method="GET",status="503"\} 0/)
  expect(text).not.toContain('/things/one')
  // An analysis may take 60 s.
  expect(text).toMatch(/sluice_http_request_duration_seconds_bucket\{le="60",route="\/things\/:id",method="GET"\} \d+/)
})
