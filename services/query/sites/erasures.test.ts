import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { segmentName } from '@sluice/imports/blob-names'
import { cohortStore } from '@sluice/postgres/cohorts'
import { erasureStore } from '@sluice/postgres/erasures'
import { exportStore } from '@sluice/postgres/exports'
import { importStore } from '@sluice/postgres/imports'
import { siteStore } from '@sluice/postgres/sites'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { finishExport } from '../../../tests/support/finished-export.ts'
import { addImport } from '../../../tests/support/import-jobs.ts'
import { startQuery, storeEvents, type TestQuery } from '../../../tests/support/query.ts'

let query: TestQuery

beforeAll(async () => {
  query = await startQuery()
  await query.clickHouse.create()
  await siteStore(query.postgres).register(['shop', 'blog'])
})

afterAll(async () => {
  await query.stop()
})

const erase = (body: unknown, { site = 'shop', key = query.admin, headers = {} } = {}) =>
  query.request(`/api/v1/sites/${site}/erasures`, { method: 'POST', body, key, headers })
const get = (id: string, { site = 'shop', key = query.admin } = {}) =>
  query.request(`/api/v1/sites/${site}/erasures/${id}`, { key })
const idOf = ({ data }: { data?: unknown }): string => (data as { erasure_id: string }).erasure_id

describe('POST /api/v1/sites/:site_id/erasures', () => {
  test.each([
    { user_id: 'ada' },
    { user_id: 'u'.repeat(256) },
    { session_id: 's' },
    { event_id: 'e' },
    { before: 1_700_000_000_000 },
  ])('accepts %j', async (selector) => {
    const before = Date.now()
    const { status, body } = await erase(selector)
    expect(status).toBe(202)
    expect(body.data).toStrictEqual({ erasure_id: expect.stringMatching(/^era_\w{26}$/), status: 'queued' })
    const shown = await get(idOf(body))
    expect(shown.status).toBe(200)
    expect(shown.body.data).toStrictEqual({
      erasure_id: idOf(body),
      site_id: 'shop',
      kind: Object.keys(selector)[0],
      status: 'queued',
      count: null,
      requested_at: expect.any(Number),
      completed_at: null,
    })
    expect((shown.body.data as { requested_at: number }).requested_at).toBeGreaterThanOrEqual(before)
  })

  test('stores hashes in place of the value', async () => {
    await erase({ user_id: 'a very private name' })
    const rows = await query.postgres.db.selectFrom('erasures').selectAll().execute()
    expect(JSON.stringify(rows)).not.toContain('private')
    expect(rows.some(({ key_hash }) => /^[0-9a-f]{32}$/.test(key_hash ?? ''))).toBe(true)
  })

  const one = 'Invalid format: must have exactly one of the fields user_id, session_id, event_id, before'
  test.each<[unknown, string]>([
    [{}, one],
    [{ user_id: '' }, one],
    [{ user_id: null }, one],
    [{ user_id: 'a', before: 1_700_000_000_000 }, one],
    [{ session_id: 'a', event_id: 'b' }, one],
    [{ user_id: 5 }, 'Invalid field: user_id must be a string'],
    [{ user_id: 'u'.repeat(257) }, 'Invalid field: user_id exceeds maximum length of 256'],
    [{ session_id: 's'.repeat(65) }, 'Invalid field: session_id exceeds maximum length of 64'],
    [{ before: '2024' }, 'Invalid field: before must be a number'],
    [{ before: 0 }, 'Invalid field: before must be at least 31536000000'],
    [{ before: 1_700_000_000 }, 'Invalid field: before must be Unix time in milliseconds, not in seconds'],
    [{ anonymous_id: 'a' }, 'Invalid field: anonymous_id is not known'],
    ['[]', 'Invalid format: body must be a JSON object'],
  ])('400 for %j', async (sent, error) => {
    const { status, body } = await erase(sent)
    expect({ status, error: body.error }).toStrictEqual({ status: 400, error })
  })

  test('404 for an unknown site and for a foreign one, 403 without the scope', async () => {
    const bound = await query.createKey({ scopes: ['admin'], siteIds: ['blog'] })
    const writer = await query.createKey({ scopes: ['events:write', 'stats:read', 'cohorts:write'] })
    expect((await erase({ user_id: 'a' }, { site: 'nobody' })).body.error).toBe('Site not found')
    expect((await erase({ user_id: 'a' }, { key: bound })).body.error).toBe('Site not found')
    expect((await erase({ user_id: 'a' }, { site: 'blog', key: bound })).status).toBe(202)
    expect((await erase({ user_id: 'a' }, { key: writer })).body.error).toBe('Insufficient scope: requires admin')
    const id = idOf((await erase({ user_id: 'a' })).body)
    expect((await get(id, { key: bound })).body.error).toBe('Erasure not found')
    expect((await get(id, { site: 'blog' })).body.error).toBe('Erasure not found')
    expect((await get('era_none')).status).toBe(404)
  })

  test('a repeated request with an Idempotency-Key is one erasure', async () => {
    const headers = { 'Idempotency-Key': 'once' }
    const first = await erase({ user_id: 'twice' }, { headers })
    const second = await erase({ user_id: 'twice' }, { headers })
    expect(idOf(second.body)).toBe(idOf(first.body))
    expect((await erase({ user_id: 'other' }, { headers })).status).toBe(409)
  })
})

describe('DELETE /api/v1/sites/:site_id', () => {
  const remove = (site: string, key = query.admin) => query.request(`/api/v1/sites/${site}`, { method: 'DELETE', key })

  test('removes the files of its exports at once', async () => {
    await siteStore(query.postgres).register(['exported'])
    const exports = exportStore(query.postgres)
    const { exportId } = await addExport(exports, { site: 'exported' }, Date.now() - 1_000)
    await finishExport({ exports, blobs: query.blobs }, exportId, { content: Buffer.from('row') })
    expect(await query.blobs.size(`exports/${exportId}`)).toBe(3)
    expect((await remove('exported')).status).toBe(202)
    expect(await query.blobs.size(`exports/${exportId}`)).toBeUndefined()
  })

  test('removes the files of its imports that have not ended at once', async () => {
    await siteStore(query.postgres).register(['imported'])
    const { importId } = await addImport(importStore(query.postgres), { site: 'imported' }, Date.now())
    await query.blobs.write(segmentName(importId, 0), Readable.from([Buffer.from('row')]), {
      signal: new AbortController().signal,
    })
    expect((await remove('imported')).status).toBe(202)
    expect(await query.blobs.size(segmentName(importId, 0))).toBeUndefined()
  })

  test('refuses a parameter that it does not know', async () => {
    await siteStore(query.postgres).register(['kept'])
    expect(await remove('kept?dry_run=true')).toMatchObject({
      status: 400,
      body: { error: 'Invalid field: dry_run is not a known parameter' },
    })
  })

  test('removes the site with its cohorts and imports; its erasure stays visible', async () => {
    const now = Date.now()
    await siteStore(query.postgres).register(['old'])
    await storeEvents(query, 'old', [now - 5_000])
    const cohorts = cohortStore(query.postgres)
    const criteria = { type: 'and' as const, conditions: [] }
    await cohorts.create({ cohortId: 'coh_old', siteId: 'old', settings: { name: 'c', description: null, criteria } })
    const imports = importStore(query.postgres)
    const { importId } = await addImport(imports, { site: 'old' }, now)
    const { status, body } = await remove('old')
    expect(status).toBe(202)
    expect((await get(idOf(body), { site: 'old' })).body.data).toMatchObject({ kind: 'site', status: 'queued' })
    expect(await cohorts.find('coh_old', null)).toBeUndefined()
    expect(await imports.find(importId, null)).toBeUndefined()
    // Its events are still there, and do not register it.
    expect((await query.request('/api/v1/sites/old')).status).toBe(404)
    expect((await query.request('/api/v1/stats?metric=event_count&site_id=old')).status).toBe(404)
    expect((await remove('old')).status).toBe(404)
    expect(await siteStore(query.postgres).find('old')).toBeUndefined()
  })

  test('a later event registers it anew, with default settings', async () => {
    await query.request('/api/v1/sites', { method: 'POST', body: { site_id: 'again', retention_days: 5 } })
    await storeEvents(query, 'again', [Date.now() - 5_000])
    await remove('again')
    expect((await query.request('/api/v1/sites/again')).status).toBe(404)
    await storeEvents(query, 'again', [Date.now() + 1_000])
    expect((await query.request('/api/v1/sites/again')).body.data).toMatchObject({ retention_days: null })
  })

  test('404 for an unknown and a foreign site; keys that are bound to it stay bound', async () => {
    const bound = await query.createKey({ scopes: ['admin'], siteIds: ['mine'] })
    await siteStore(query.postgres).register(['mine', 'theirs'])
    expect((await remove('theirs', bound)).body.error).toBe('Site not found')
    expect((await remove('nobody')).body.error).toBe('Site not found')
    expect((await remove('mine', bound)).status).toBe(202)
    expect((await remove('theirs', bound)).status).toBe(404)
    expect((await query.request('/api/v1/settings/keys', { key: bound })).body.data).toMatchObject({
      keys: [{ site_ids: ['mine'] }],
    })
    expect(await erasureStore(query.postgres).siteDeletedAt('theirs')).toBeUndefined()
  })
})
