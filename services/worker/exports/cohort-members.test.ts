import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Criteria } from '@sluice/contracts/conditions'
import { newId } from '@sluice/runtime/ids'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { createExportRig, exportedAt, type ExportRig } from '../../../tests/support/export-rig.ts'
import { noon } from '../../../tests/support/stats-database.ts'
import type { ExportUnitDeps } from './export-unit.ts'

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
  await rig.work({ watermarks: { readCompleteTimes: () => Promise.resolve({ live: exportedAt, all: exportedAt }) } })
  expect(await valuesOf(exportId, 'user_id')).toStrictEqual(['anna', 'ben', 'ben'])
})

describe('a file of many slices', () => {
  const count = 12_000
  let siteId: string
  let cohortId: string

  beforeAll(async () => {
    siteId = newId('site')
    // The first event of each of 9,000 users is a purchase, but the last thousand buy nothing. Texts that can't be
    // compressed give the file several parts, and so several units.
    await rig.database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, user_id, timestamp, event_id, url, received_at)
       SELECT {site_id:String}, 'prod', if(number < 8000, 'purchase', 'view'), concat('u', toString(number % 9000)),
         fromUnixTimestamp64Milli({noon:Int64} + number), toString(number), base64Encode(randomString(1200)),
         fromUnixTimestamp64Milli({noon:Int64})
       FROM numbers(${count})`,
      { params: { site_id: siteId, noon } },
    )
    cohortId = await createBuyers(siteId)
  })

  /** Makes the file by one worker; returns it, the number of its units and how often the cohort was evaluated. */
  async function exportBuyers(
    parts: Partial<ExportUnitDeps>,
    id = cohortId,
  ): Promise<{ exportId: string; units: number; evaluations: number }> {
    let evaluations = 0
    const note = (params: object): void => {
      if (Object.keys(params).some((name) => name.startsWith('criteria'))) evaluations++
    }
    const reader: ExportUnitDeps['reader'] = {
      runnerFor: (signal) => {
        const runner = rig.reader.runnerFor(signal)
        return {
          ...runner,
          query: (statement, options) => {
            note(statement.params)
            return runner.query(statement, options)
          },
        }
      },
      read: (rows, ...rest) => {
        note(rows.params)
        return rig.reader.read(rows, ...rest)
      },
    }
    const unit = rig.unit({ reader, sliceEventsMax: 2_000, ...parts })
    const spec = { format: 'ndjson', cohort_id: id } as const
    const { exportId } = await addExport(rig.exports, { site: siteId, spec }, exportedAt)
    for (let units = 1; ; units++) {
      const { job, lease } = await rig.take()
      const { next } = await unit(job, lease)
      await rig.exports.leases.release(lease, next === 'done' ? null : exportedAt, { isProgress: true })
      if (next === 'done') return { exportId, units, evaluations }
    }
  }

  const ofBuyers = Array.from({ length: count }, (_, n) => String(n)).filter((id) => Number(id) % 9_000 < 8_000)
  const idsOf = async (exportId: string) => (await valuesOf(exportId, 'event_id')).sort()

  test('has the events of members whom one statement selects, whatever the number of units', async () => {
    const { exportId, units, evaluations } = await exportBuyers({})
    expect(units).toBeGreaterThan(1)
    expect(evaluations).toBe(1)
    expect(await idsOf(exportId)).toStrictEqual(ofBuyers.sort())
  })

  test('has the same events when the members are too many for that', async () => {
    const { exportId, evaluations } = await exportBuyers({ membersMax: 7_999 })
    expect(evaluations).toBeGreaterThan(1)
    expect(await idsOf(exportId)).toStrictEqual(ofBuyers.sort())
  })

  test('has no events without members', async () => {
    const criteria: Criteria = {
      type: 'and',
      conditions: [{ property: 'event_type', operator: 'equals', value: 'refund' }],
    }
    const refunded = newId('coh')
    const settings = { name: 'Refunded', description: null, criteria }
    await rig.cohorts.create({ cohortId: refunded, siteId, settings })
    const { exportId, units, evaluations } = await exportBuyers({}, refunded)
    expect({ units, evaluations }).toStrictEqual({ units: 1, evaluations: 1 })
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'completed', rows: 0 })
  })
})
