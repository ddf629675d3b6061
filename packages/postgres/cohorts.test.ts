import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { CohortSettings } from '@sluice/contracts/cohorts'
import { type CohortStore, cohortStore } from './cohorts.ts'
import { openTestPostgres, type TestPostgres } from './testing.ts'

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

const make = (cohortId: string, siteId: string) => store.create({ cohortId, siteId, settings })

test('a cohort is found as it was made, its criteria in the order of their fields', async () => {
  const made = await make('coh_a', 'shop')
  expect(made).toMatchObject({ cohortId: 'coh_a', siteId: 'shop', settings })
  const found = await store.find('coh_a', null)
  expect(found).toStrictEqual(made)
  expect(JSON.stringify(found?.settings.criteria)).toBe(JSON.stringify(settings.criteria))
  expect(await store.find('coh_b', null)).toBeUndefined()
})

describe('of another site', () => {
  test.each([[[]], [['other']], [['SHOP', 'other']]])('to one who may see %j it is absent', async (siteIds) => {
    await make(`coh_${siteIds.join()}`, 'shop')
    const id = `coh_${siteIds.join()}`
    expect(await store.find(id, siteIds)).toBeUndefined()
    expect(await store.update(id, siteIds, { name: 'mine' })).toBeUndefined()
    expect(await store.delete(id, siteIds)).toBe(false)
    expect(await store.find(id, ['shop'])).toMatchObject({ settings: { name: settings.name } })
  })
})

test('what is given is changed, the rest stays', async () => {
  const made = await make('coh_change', 'shop')
  // As if it had been made a while ago: all of this may happen in one millisecond.
  await postgres.db
    .updateTable('cohorts')
    .set({ updated_at: new Date(0) })
    .where('cohort_id', '=', 'coh_change')
    .execute()
  const changed = await store.update('coh_change', ['shop'], { description: 'd' })
  expect(changed).toMatchObject({ settings: { ...settings, description: 'd' }, createdAt: made.createdAt })
  expect(changed?.updatedAt.getTime()).toBeGreaterThanOrEqual(made.updatedAt.getTime())
  const criteria: CohortSettings['criteria'] = { type: 'and', conditions: [{ property: 'url', operator: 'exists' }] }
  const again = await store.update('coh_change', null, { name: 'n', description: null, criteria })
  expect(again?.settings).toStrictEqual({ name: 'n', description: null, criteria })
})

test('a list is of one site, newest first, in pages', async () => {
  for (const id of ['coh_1', 'coh_2', 'coh_3']) await make(id, 'listed')
  await make('coh_4', 'another')
  const page = async (limit: number, offset: number) => {
    const { cohorts, total } = await store.list('listed', { limit, offset })
    return { ids: cohorts.map(({ cohortId }) => cohortId), total }
  }
  expect(await page(50, 0)).toStrictEqual({ ids: ['coh_3', 'coh_2', 'coh_1'], total: 3 })
  expect(await page(1, 1)).toStrictEqual({ ids: ['coh_2'], total: 3 })
  expect(await page(1, 3)).toStrictEqual({ ids: [], total: 3 })
})

test('a deleted cohort is gone, and can be deleted once', async () => {
  await make('coh_gone', 'shop')
  expect(await store.delete('coh_gone', ['shop'])).toBe(true)
  expect(await store.find('coh_gone', null)).toBeUndefined()
  expect(await store.delete('coh_gone', null)).toBe(false)
})
