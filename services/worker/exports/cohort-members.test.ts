import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Criteria } from '@sluice/contracts/conditions'
import { newId } from '@sluice/runtime/ids'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { createExportRig, exportedAt, type ExportRig } from '../../../tests/support/export-rig.ts'
import { noon } from '../../../tests/support/stats-database.ts'

let rig: ExportRig

beforeAll(async () => {
  rig = await createExportRig()
})

afterAll(async () => {
  await rig.drop()
})

const buyers: Criteria = {
  type: 'and',
  conditions: [{ property: 'event_type', operator: 'equals', value: 'purchase' }],
}

async function createBuyers(siteId: string): Promise<string> {
  const cohortId = newId('coh')
  await rig.cohorts.create({ cohortId, siteId, settings: { name: 'Buyers', description: null, criteria: buyers } })
  return cohortId
}

/** The values of a field in a file of NDJSON. */
async function valuesOf(exportId: string, field: string): Promise<unknown[]> {
  const lines = (await rig.file(exportId)).toString().trimEnd().split('\n')
  return lines.map((line) => (JSON.parse(line) as Record<string, unknown>)[field])
}

test.each(['events', 'users', 'cohort', 'sessions'] as const)(
  'a purchase that was received after the creation of an export of %s makes nobody a member',
  async (type) => {
    const siteId = await rig.database.siteWith([
      { at: 0, user_id: 'anna', session_id: 'of anna', event_type: 'purchase' },
      { at: 1, user_id: 'ben', session_id: 'of ben' },
      { at: 2, user_id: 'anna', session_id: 'of anna' },
      { at: 3, user_id: 'ben', session_id: 'of ben' },
      { at: 4, user_id: 'ben', event_type: 'purchase', received_at: exportedAt + 1 },
    ])
    const spec = { type, format: 'ndjson', cohort_id: await createBuyers(siteId) } as const
    const { exportId } = await rig.exportAll(siteId, spec, { sliceEventsMax: 1 })
    expect(new Set(await valuesOf(exportId, 'user_id'))).toStrictEqual(new Set(['anna']))
  },
)

test('a run of a schedule has the members of its end', async () => {
  const day = 86_400_000
  const siteId = await rig.database.siteWith([
    { at: 0, user_id: 'anna', event_type: 'purchase' },
    { at: 25, user_id: 'anna' },
    { at: 26, user_id: 'ben' },
    { at: 27, user_id: 'ben', event_type: 'purchase' },
    { at: 28, user_id: 'carl' },
    { at: 29, user_id: 'carl', event_type: 'purchase', received_at: noon + 2 * day },
  ])
  const spec = { format: 'ndjson', cohort_id: await createBuyers(siteId) } as const
  const { exportId } = await addExport(rig.exports, { site: siteId, spec }, exportedAt)
  const range = { received_from: new Date(noon + day), received_until: new Date(noon + 2 * day) }
  await rig.postgres.db.updateTable('exports').set(range).where('export_id', '=', exportId).execute()
  await rig.work({ watermarks: { completeUntil: () => Promise.resolve({ live: exportedAt, all: exportedAt }) } })
  expect(await valuesOf(exportId, 'user_id')).toStrictEqual(['anna', 'ben', 'ben'])
})
