import type { ExportSpec } from '@sluice/contracts/exports'
import { hourMs } from '@sluice/contracts/time-units'
import type { ExportRecord, NewExport } from '@sluice/postgres/export-records'
import type { ExportStore } from '@sluice/postgres/exports'
import { newId } from '@sluice/runtime/ids'

/** Stores an export that workers may take from `at` on. */
export function addExport(
  store: Pick<ExportStore, 'create'>,
  {
    site = newId('site'),
    spec,
    ...parts
  }: Partial<Omit<NewExport, 'spec'>> & { site?: string; spec?: Partial<ExportSpec> },
  at: number,
): Promise<ExportRecord> {
  return store.create(
    {
      exportId: newId('exp'),
      siteId: site,
      keyId: 'key_1',
      name: 'all events',
      spec: { type: 'events', format: 'csv', environment: 'prod', csv_safe: true, ...spec },
      ...parts,
    },
    at,
  )
}

/** The moment, spec and schedule of the exports in the tests of their store. */
export const noon = Date.UTC(2042, 5, 1, 12)
export const spec = { type: 'events', format: 'csv', environment: 'dev', csv_safe: true, start_date: 5 } as const
export const hourly = { frequency: 'hourly', nextRun: noon, paused: false } as const

/** Takes exports and schedules of a store as a worker does; `store` is called at each use. Throws when none is due. */
export function exportTakers(store: () => ExportStore) {
  async function take(now: number) {
    const [taken] = await store().leases.take(now, 1)
    if (!taken) throw new Error('nothing was taken')
    return taken
  }

  async function takeSchedule(now: number) {
    const [taken] = await store().schedules.take(now, 1)
    if (!taken) throw new Error('no schedule was taken')
    return taken
  }

  /** A run that the next lease of the schedule makes. */
  async function makeRun(at: number, parts: { firstFrom?: number; completeUntil?: number } = {}) {
    const lease = await takeSchedule(at)
    const receipt = { firstFrom: noon - hourMs, completeUntil: at, ...parts }
    const run = await store().createRun(lease, { exportId: newId('exp'), spec, receipt, nextRun: at + hourMs }, at)
    await store().schedules.release(lease, at + hourMs, { isProgress: true })
    return run
  }

  return { take, takeSchedule, makeRun }
}
