import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { cohortLimits, type CohortSettings } from '@sluice/contracts/cohorts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type CohortStore, cohortStore } from './cohorts.ts'

let postgres: TestPostgres
let store: CohortStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = cohortStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

const settings: CohortSettings = {
  name: "it's \u{1F600}",
  description: null,
  criteria: {
    type: 'or',
    scope: 'user',
    conditions: [
      { property: 'country', operator: 'in', value: ['DE', "o'k"] },
      { type: 'and', conditions: [{ property: 'url', operator: 'exists' }] },
    ],
  },
}

const createCohort = (cohortId: string, siteId: string) => store.create({ cohortId, siteId, settings })

test('a cohort is returned as it was created, with the fields of its criteria in their order', async () => {
  const created = await createCohort('coh_a', 'shop')
  expect(created).toMatchObject({ cohortId: 'coh_a', siteId: 'shop', settings })
  const found = await store.find('coh_a', null)
  expect(found).toStrictEqual(created)
  expect(JSON.stringify(found?.settings.criteria)).toBe(JSON.stringify(settings.criteria))
  expect(await store.find('coh_b', null)).toBeUndefined()
})

test('a site has at most 1,000 cohorts, however many are made at once, and another site goes on', async () => {
  await sql`
    INSERT INTO cohorts (cohort_id, site_id, name, criteria)
    SELECT 'coh_full_' || n, 'full', 'one', '{}' FROM generate_series(2, ${cohortLimits.cohortsPerSiteMax}::int) AS n
  `.execute(postgres.db)
  const made = await Promise.allSettled(['a', 'b', 'c'].map((id) => createCohort(`coh_full_${id}`, 'full')))
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const message = 'Site has 1000 cohorts, the maximum: delete one first'
  await expect(createCohort('coh_full_d', 'full')).rejects.toMatchObject({ code: 'conflict', message })
  await createCohort('coh_emptier', 'emptier')
})

describe('a cohort of another site', () => {
  test.each([[[]], [['other']], [['SHOP', 'other']]])(
    'is absent for a caller that is bound to the sites %j',
    async (siteIds) => {
      await createCohort(`coh_${siteIds.join()}`, 'shop')
      const id = `coh_${siteIds.join()}`
      expect(await store.find(id, siteIds)).toBeUndefined()
      expect(await store.update(id, siteIds, { name: 'mine' })).toBeUndefined()
      expect(await store.delete(id, siteIds)).toBe(false)
      expect(await store.find(id, ['shop'])).toMatchObject({ settings: { name: settings.name } })
    },
  )
})

test('an update changes the fields that are present and keeps the others', async () => {
  const created = await createCohort('coh_change', 'shop')
  // The cohort gets an early time of its last update, because the whole test may take less than a millisecond.
  await postgres.db
    .updateTable('cohorts')
    .set({ updated_at: new Date(0) })
    .where('cohort_id', '=', 'coh_change')
    .execute()
  const changed = await store.update('coh_change', ['shop'], { description: 'd' })
  expect(changed).toMatchObject({ settings: { ...settings, description: 'd' }, createdAt: created.createdAt })
  expect(changed?.updatedAt).toBeGreaterThanOrEqual(created.updatedAt)
  const criteria: CohortSettings['criteria'] = { type: 'and', conditions: [{ property: 'url', operator: 'exists' }] }
  const again = await store.update('coh_change', null, { name: 'n', description: null, criteria })
  expect(again?.settings).toStrictEqual({ name: 'n', description: null, criteria })
})

test('a list has pages of the cohorts of one site, the newest first', async () => {
  for (const id of ['coh_1', 'coh_2', 'coh_3']) await createCohort(id, 'listed')
  await createCohort('coh_4', 'another')
  const page = async (limit: number, offset: number) => {
    const { cohorts, total } = await store.list('listed', { limit, offset })
    return { ids: cohorts.map(({ cohortId }) => cohortId), total }
  }
  expect(await page(50, 0)).toStrictEqual({ ids: ['coh_3', 'coh_2', 'coh_1'], total: 3 })
  expect(await page(1, 1)).toStrictEqual({ ids: ['coh_2'], total: 3 })
  expect(await page(1, 3)).toStrictEqual({ ids: [], total: 3 })
})

test('a page whose criteria are too large together is refused, and a smaller one is answered', async () => {
  // As large as 50,000 control characters are in JSON.
  await sql`
    INSERT INTO cohorts (cohort_id, site_id, name, criteria)
    SELECT 'coh_large_' || n, 'large', 'one', json_build_object('type', repeat('x', 300000)) FROM generate_series(1, 120) AS n
  `.execute(postgres.db)
  await expect(store.list('large', { limit: 120, offset: 0 })).rejects.toMatchObject({
    code: 'invalid_field',
    message: 'Invalid field: limit is too high: the page would be too large, so use a lower limit',
  })
  const { cohorts, total } = await store.list('large', { limit: 60, offset: 60 })
  expect([cohorts.length, total]).toStrictEqual([60, 120])
})

test('a deleted cohort is absent and can not be deleted again', async () => {
  await createCohort('coh_gone', 'shop')
  expect(await store.delete('coh_gone', ['shop'])).toBe(true)
  expect(await store.find('coh_gone', null)).toBeUndefined()
  expect(await store.delete('coh_gone', null)).toBe(false)
})
