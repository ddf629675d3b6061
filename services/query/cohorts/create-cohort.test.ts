import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { eventLimits } from '@sluice/contracts/event-limits'
import { siteStore } from '@sluice/postgres/sites'
import { startQuery, type TestQuery } from '../../../tests/support/query.ts'
import { createTestKey } from '../../../tests/support/test-postgres.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  await siteStore(query.postgres).register(['shop'])
})

afterAll(async () => {
  await query.stop()
})

const buyers = { type: 'and', conditions: [{ property: 'event_type', operator: 'equals', value: 'purchase' }] }
const create = (body: unknown, parts: { key?: string; headers?: Record<string, string> } = {}) =>
  query.request('/api/v1/cohorts', { method: 'POST', body, ...parts })
const isRegistered = async (siteId: string) => (await siteStore(query.postgres).find(siteId)) !== undefined

describe('POST /api/v1/cohorts', () => {
  test('creates a cohort with the given fields and a new id, under which it can be read', async () => {
    const before = Date.now()
    const { status, body } = await create({ site_id: 'shop', name: 'Buyers', criteria: buyers })
    expect(status).toBe(201)
    const { cohort_id, created_at, updated_at, ...rest } = body.data as Record<string, unknown>
    expect(rest).toStrictEqual({ site_id: 'shop', name: 'Buyers', description: null, criteria: buyers })
    expect(cohort_id).toMatch(/^coh_[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(Math.abs(Number(created_at) - before)).toBeLessThan(60_000)
    expect(updated_at).toBe(created_at)
    expect((await query.request(`/api/v1/cohorts/${String(cohort_id)}`)).body.data).toStrictEqual(body.data)
  })

  test('returns nested criteria as they were sent, with numbers as text', async () => {
    const criteria = {
      type: 'or',
      scope: 'user',
      conditions: [
        { property: 'properties.price', operator: 'greater_than', value: 5 },
        { type: 'and', conditions: [{ property: 'plan', operator: 'in', value: ["o'k", 7] }] },
        { property: 'user.email', operator: 'exists' },
      ],
    }
    const { body } = await create({ site_id: 'shop', name: 'x', description: '', criteria })
    const kept = JSON.stringify(criteria).replace(':5}', ':"5"}').replace(',7]', ',"7"]')
    expect(JSON.stringify((body.data as { criteria: unknown }).criteria)).toBe(kept)
    expect(body.data).toMatchObject({ description: null })
  })

  test('registers an unknown site on behalf of the key', async () => {
    const { key, keyId } = await createTestKey(query.keys, { scopes: ['cohorts:write'] })
    expect((await create({ site_id: 'new', name: 'x', criteria: buyers }, { key })).status).toBe(201)
    const rows = await query.postgres.db
      .selectFrom('sites')
      .select('registered_by')
      .where('site_id', '=', 'new')
      .execute()
    expect(rows).toStrictEqual([{ registered_by: keyId }])
  })

  test('creates one cohort for repeated requests with the same Idempotency-Key', async () => {
    const headers = { 'Idempotency-Key': 'once' }
    const cohort = { site_id: 'shop', name: 'once', criteria: buyers }
    const first = await create(cohort, { headers })
    const second = await create(cohort, { headers })
    expect(second.status).toBe(201)
    expect(second.body).toStrictEqual(first.body)
    expect((await create({ ...cohort, name: 'twice' }, { headers })).status).toBe(409)
  })
})

describe('POST /api/v1/cohorts with an invalid body', () => {
  const good = { site_id: 'shop', name: 'x', criteria: buyers }
  const of = (...conditions: unknown[]) => ({ ...good, criteria: { type: 'and', conditions } })
  const condition = { property: 'url', operator: 'equals', value: 'x' }
  const nested = (levels: number): unknown =>
    levels === 0 ? condition : { type: 'and', conditions: [nested(levels - 1)] }

  test.each<[unknown, string]>([
    ['[]', 'Invalid format: body must be a JSON object'],
    [{}, 'Missing required field: site_id'],
    [{ ...good, site_id: 's'.repeat(65) }, 'Invalid field: site_id exceeds maximum length of 64'],
    [{ ...good, name: '' }, 'Missing required field: name'],
    [{ ...good, name: 'n'.repeat(129) }, 'Invalid field: name exceeds maximum length of 128'],
    [{ ...good, name: ' ' }, 'Invalid field: name must not be blank'],
    [{ ...good, name: 5 }, 'Invalid field: name must be a string'],
    [{ ...good, description: 'd'.repeat(1_025) }, 'Invalid field: description exceeds maximum length of 1024'],
    [{ ...good, description: 'a\0' }, 'Invalid field: description must not contain NUL characters'],
    [{ ...good, criteria: undefined }, 'Missing required field: criteria'],
    [{ ...good, criteria: 'all' }, 'Invalid field: criteria must be an object {type, conditions}'],
    [{ ...good, criteria: {} }, 'Missing required field: criteria.type'],
    [{ ...good, criteria: { type: 'xor' } }, 'Invalid field: criteria.type must be one of: and, or'],
    [{ ...good, criteria: { type: 'and' } }, 'Missing required field: criteria.conditions'],
    [of(), 'Invalid field: criteria.conditions must hold at least one condition'],
    [{ ...good, criteria: { ...buyers, scope: 'site' } }, 'Invalid field: criteria.scope must be one of: event, user'],
    [
      of(condition, { type: 'or', scope: 'user', conditions: [condition] }),
      'Invalid field: criteria.conditions.1.scope is for the outermost criteria',
    ],
    [of({ operator: 'exists' }), 'Missing required field: criteria.conditions.0.property'],
    [of(condition, { property: 'url' }), 'Missing required field: criteria.conditions.1.operator'],
    [of(condition, { property: 'url', operator: 'equals' }), 'Missing required field: criteria.conditions.1.value'],
    [
      of({ ...condition, value: ['x'] }),
      'Invalid field: criteria.conditions.0.value must be a text or a number: lists are for in and not_in',
    ],
    [
      of({ ...condition, operator: 'greater_than' }),
      'Invalid field: criteria.conditions.0.value must be a finite number, as greater_than compares',
    ],
    [of({ ...condition, more: 1 }), 'Invalid field: criteria.conditions.0.more is not known'],
    [
      nestedIn(nested(3)),
      'Invalid field: criteria.conditions.0.conditions.0.conditions.0 is nested deeper than 3 levels',
    ],
    [of(...Array<unknown>(21).fill(condition)), 'Invalid field: criteria must contain at most 20 conditions'],
    [
      of({ ...condition, operator: 'matches', value: '(a{1,100}){1,100}' }),
      'Invalid field: criteria.conditions.0.value is too heavy a regular expression: its repetitions and ranges, written out, make more than 600 steps',
    ],
    [
      of({ ...condition, operator: 'in', value: Array.from({ length: 1_000 }, (_, n) => `${n}`.padStart(60, 'x')) }),
      'Invalid field: criteria must not hold more than 50000 bytes of values and properties',
    ],
    [{ ...good, cohort_id: 'mine' }, 'Invalid field: cohort_id is not known'],
  ])('%j is refused with 400 and the name of the field', async (sent, error) => {
    const { status, body } = await create(sent)
    expect(status).toBe(400)
    expect(body).toStrictEqual({ success: false, error, timestamp: expect.any(Number) })
  })

  function nestedIn(condition: unknown) {
    return { ...good, criteria: { type: 'and', conditions: [condition] } }
  }
})

test('a site that the key is not bound to is refused with 403, known or not, and is not registered', async () => {
  const key = await query.createKey({ scopes: ['cohorts:write'], siteIds: ['own'] })
  for (const siteId of ['shop', 'foreign']) {
    const { status, body } = await create({ site_id: siteId, name: 'x', criteria: buyers }, { key })
    expect(status).toBe(403)
    expect(body.error).toBe('Key is not allowed for this site')
  }
  expect(await isRegistered('foreign')).toBe(false)
  expect((await create({ site_id: 'own', name: 'x', criteria: buyers }, { key })).status).toBe(201)
})

describe('without automatic registration of sites', () => {
  let manual: TestQuery

  beforeAll(async () => {
    manual = await startQuery({ autoRegister: false })
    await manual.clickHouse.create()
  })

  afterAll(async () => {
    await manual.stop()
  })

  test('an unknown site is 404 until it is registered', async () => {
    const body = { site_id: 'unknown', name: 'x', criteria: buyers }
    const refused = await manual.request('/api/v1/cohorts', { method: 'POST', body })
    expect(refused.status).toBe(404)
    expect(refused.body.error).toBe('Site not found')
    await siteStore(manual.postgres).register(['unknown'])
    expect((await manual.request('/api/v1/cohorts', { method: 'POST', body })).status).toBe(201)
  })
})

test('the first site beyond the daily limit of a key is refused with 429', async () => {
  const { key, keyId } = await createTestKey(query.keys, { scopes: ['cohorts:write'] })
  const sites = Array.from({ length: eventLimits.newSitesPerDayMax }, (_, n) => `of a day ${n}`)
  await siteStore(query.postgres).registerFor(keyId, sites)
  const { status, headers } = await create({ site_id: 'one more', name: 'x', criteria: buyers }, { key })
  expect(status).toBe(429)
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await isRegistered('one more')).toBe(false)
  expect((await create({ site_id: 'of a day 1', name: 'x', criteria: buyers }, { key })).status).toBe(201)
})
