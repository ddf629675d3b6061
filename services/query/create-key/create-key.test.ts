import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { hashKey, keyEnvironment } from '@sluice/contracts/api-key'
import { scopes } from '@sluice/contracts/scopes'
import { siteStore } from '@sluice/postgres/sites'
import { createTestKey } from '@sluice/postgres/testing'
import { apiRequest } from '../../../tests/api-request.ts'
import { startQuery, type TestQuery } from '../query.test-support.ts'
import { createKeyHandler } from './handler.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
})

afterAll(async () => {
  await query.stop()
})

const create = (body: unknown, key = query.admin) => query.ask('/api/v1/settings/keys', { method: 'POST', body, key })

interface Created {
  key_id: string
  key: string
  hint: string
  created_at: number
}

describe('201', () => {
  test('a name is enough: a production key for events and stats, shown this once', async () => {
    const before = Date.now()
    const { status, body } = await create({ name: 'web shop' })
    expect(status).toBe(201)
    const data = body.data as Created
    expect(data).toStrictEqual({
      key_id: expect.stringMatching(/^key_[\dA-HJKMNP-TV-Z]{26}$/),
      name: 'web shop',
      environment: 'prod',
      scopes: ['events:write', 'stats:read'],
      site_ids: null,
      rate_limits: null,
      hint: `svc_prod_…${data.key.slice(-4)}`,
      created_at: expect.any(Number),
      last_used_at: null,
      expires_at: null,
      revoked_at: null,
      key: expect.stringMatching(/^svc_prod_[\dA-Za-z]{34}$/),
    })
    expect(keyEnvironment(data.key)).toBe('prod')
    expect(Math.abs(data.created_at - before)).toBeLessThan(60_000)
    for (const path of ['/api/v1/settings/keys', `/api/v1/settings/keys/${data.key_id}`]) {
      const later = JSON.stringify((await query.ask(path)).body)
      expect(later).toContain(data.key_id)
      expect(later).not.toContain(data.key)
      expect(later).not.toContain(hashKey(data.key))
    }
  })

  test('only the key’s SHA-256 is stored, and the log has its id alone', async () => {
    const { key, key_id: keyId } = (await create({ name: 'stored' })).body.data as Created
    const stored = JSON.stringify(await query.postgres.db.selectFrom('api_keys').selectAll().execute())
    expect(stored).toContain(hashKey(key))
    expect(stored).not.toContain(key)
    expect(query.service.text()).not.toContain(key)
    expect(query.service.lines()).toContainEqual(expect.objectContaining({ created_key_id: keyId, status: 201 }))
  })

  test('with everything said; the key works at once, with what it was given', async () => {
    const expiresAt = Date.now() + 3_600_000
    const { status, body } = await create({
      name: 'everything',
      scopes: ['stats:read'],
      environment: 'dev',
      site_ids: ['shop', 'blog'],
      expires_at: expiresAt,
      rate_limits: { queries_per_minute: 5_000, events_per_minute: 10_000_000 },
    })
    expect(status).toBe(201)
    expect(body.data).toMatchObject({
      scopes: ['stats:read'],
      environment: 'dev',
      site_ids: ['shop', 'blog'],
      expires_at: expiresAt,
      rate_limits: { queries_per_minute: 5_000, events_per_minute: 10_000_000 },
    })
    const { key } = body.data as Created
    expect(key).toMatch(/^svc_dev_[\dA-Za-z]{35}$/)
    expect((await query.ask('/api/v1/stats', { key })).status).toBe(400)
    expect((await query.ask('/api/v1/settings/keys', { key })).status).toBe(403)
  })

  test('names need not differ; keys do', async () => {
    const keys = await Promise.all(Array.from({ length: 10 }, () => create({ name: 'twin' })))
    const data = keys.map(({ body }) => body.data as Created)
    expect(new Set(data.map(({ key }) => key)).size).toBe(10)
    expect(new Set(data.map(({ key_id }) => key_id)).size).toBe(10)
  })

  test.each([null, 8_640_000_000_000_000])('expires_at may be %p', async (expiresAt) => {
    const { status, body } = await create({ name: 'late', expires_at: expiresAt })
    expect(status).toBe(201)
    expect(body.data).toHaveProperty('expires_at', expiresAt)
    const { key, key_id: keyId } = body.data as Created
    expect((await query.ask(`/api/v1/settings/keys/${keyId}`)).body.data).toHaveProperty('expires_at', expiresAt)
    expect((await query.ask('/api/v1/stats', { key })).status).toBe(400)
  })

  test('the sites that it names are registered, in the name of its maker', async () => {
    const { keyId, key } = await createTestKey(query.keys, { scopes: ['admin'] })
    await create({ name: 'shop', site_ids: ['named with a key'] }, key)
    const rows = await query.postgres.db
      .selectFrom('sites')
      .select(['name', 'registered_by'])
      .where('site_id', '=', 'named with a key')
      .execute()
    expect(rows).toStrictEqual([{ name: null, registered_by: keyId }])
  })

  test('a name may hold anything but NUL', async () => {
    const name = `'; DROP TABLE api_keys; -- <script> \u{1F600}\n`
    const { body } = await create({ name })
    expect(body.data).toHaveProperty('name', name)
  })
})

describe('400 names the field', () => {
  test.each<[unknown, string]>([
    ['', 'Invalid format: body is empty, a JSON object is expected'],
    ['{', 'Invalid format: body is not valid JSON'],
    ['[]', 'Invalid format: must be an object'],
    ['null', 'Invalid format: must be an object'],
    [{}, 'Missing required field: name'],
    [{ name: 'n', scopes: ['everything'] }, `Invalid field: scopes.0 must be one of: ${scopes.join(', ')}`],
    [{ name: 'n', environment: 'staging' }, 'Invalid field: environment must be one of: prod, dev'],
    [{ name: 'n', key: 'mine' }, 'Invalid field: key is not known'],
    [{ name: 'n', key_id: 'key_mine' }, 'Invalid field: key_id is not known'],
    [{ name: 'n', bootstrap: true }, 'Invalid field: bootstrap is not known'],
    [
      { name: 'n', expires_at: Date.now() - 1 },
      'Invalid field: expires_at must be Unix time in milliseconds, in the future',
    ],
    [
      { name: 'n', expires_at: Math.floor(Date.now() / 1000) + 3_600 },
      'Invalid field: expires_at must be Unix time in milliseconds, in the future',
    ],
    [{ name: 'n', site_ids: 'shop' }, 'Invalid field: site_ids must be an array'],
    [{ name: 'n', site_ids: [] }, 'Invalid field: site_ids must name at least one site, or be null'],
    [{ name: 'n', site_ids: ['s', 's'] }, 'Invalid field: site_ids.1 must name each site once'],
    [
      { name: 'n', rate_limits: { events_per_minute: 0 } },
      'Invalid field: rate_limits.events_per_minute must be at least 1',
    ],
    [{ name: 'n', expires_at: 8_640_000_000_000_001 }, 'Invalid field: expires_at must be at most 8640000000000000'],
  ])('%j', async (sent, error) => {
    const { status, body } = await create(sent)
    expect(status).toBe(400)
    expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
  })
})

test('413: a body over 64 KiB; 415: what is not JSON', async () => {
  expect((await create({ name: 'n'.repeat(70_000) })).status).toBe(413)
  const asked = { method: 'POST', body: 'name=n', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }
  expect((await query.ask('/api/v1/settings/keys', asked)).status).toBe(415)
})

describe('a key can’t grant what its maker lacks', () => {
  // No scope but admin reaches the route today: the rule is the handler's own.
  const handle = (held: (typeof scopes)[number][], wanted: string[]) =>
    createKeyHandler({ keys: query.keys })(
      apiRequest({
        credential: { ...apiRequest().credential, scopes: held },
        body: { bytes: Buffer.from(JSON.stringify({ name: 'n', scopes: wanted })), type: 'application/json' },
      }),
    )
  const count = async () => (await query.keys.list({ limit: 1, offset: 0 }, null)).total

  test('403 names the scope, and nothing is made', async () => {
    const before = await count()
    await expect(handle(['stats:read'], ['stats:read', 'events:write'])).rejects.toMatchObject({
      status: 403,
      message: 'Insufficient scope: requires events:write',
    })
    await expect(handle(['cohorts:write'], ['admin'])).rejects.toMatchObject({ status: 403 })
    expect(await count()).toBe(before)
  })

  test('admin has everything to give', async () => {
    expect(await handle(['admin'], [...scopes])).toMatchObject({ status: 201 })
    expect(await handle(['stats:read'], ['stats:read'])).toMatchObject({ status: 201 })
  })

  describe('that is bound to sites', () => {
    const bound = () => query.createKey({ scopes: ['admin'], siteIds: ['own', 'also own'] })

    test('201: without site_ids it gives its own; named ones may be fewer', async () => {
      const key = await bound()
      expect((await create({ name: 'n' }, key)).body.data).toMatchObject({ site_ids: ['own', 'also own'] })
      const { status, body } = await create({ name: 'n', scopes: ['admin'], site_ids: ['own'] }, key)
      expect(status).toBe(201)
      expect(body.data).toMatchObject({ site_ids: ['own'] })
    })

    test('403: neither every site nor a foreign one; nothing is made, and no site registered', async () => {
      const key = await bound()
      const before = await count()
      for (const site_ids of [null, ['foreign'], ['own', 'foreign'], ['OWN']]) {
        const { status, body } = await create({ name: 'n', site_ids }, key)
        expect(status).toBe(403)
        expect(body.error).toBe('Key is not allowed for this site')
      }
      expect(await count()).toBe(before)
      expect(await siteStore(query.postgres).find('foreign')).toBeUndefined()
    })

    test('201: limits are no grants, they may pass the maker’s', async () => {
      const key = await query.createKey({ scopes: ['admin'], rateLimits: { events_per_minute: 1 } })
      const { status, body } = await create({ name: 'n', rate_limits: { events_per_minute: 10_000_000 } }, key)
      expect(status).toBe(201)
      expect(body.data).toMatchObject({ rate_limits: { events_per_minute: 10_000_000 } })
    })
  })
})
