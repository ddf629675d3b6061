import { Readable } from 'node:stream'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type ExportStatus, exportTypes } from '@sluice/contracts/exports'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { createExportRig, type ExportRig } from '../../../tests/support/export-rig.ts'
import { removeUnneededExportFiles } from './export-files.ts'

const dayMs = 86_400_000
let rig: ExportRig

beforeAll(async () => {
  rig = await createExportRig()
})

afterAll(async () => {
  await rig.drop()
})

async function names(): Promise<string[]> {
  const found: string[] = []
  for await (const { name } of rig.blobs.list('')) found.push(name)
  for await (const { name } of rig.blobs.listMultipartUploads()) found.push(`upload of ${name}`)
  return found.sort()
}

test('blobs and uploads whose names are not of exports stay', async () => {
  const { exports, blobs } = rig
  const ofOthers = ['exports/report.csv', 'exports/2024/exp_1']
  for (const name of ofOthers) await blobs.write(name, Readable.from([Buffer.from('rows')]))
  const upload = await blobs.createMultipartUpload('exports/photos')
  await removeUnneededExportFiles({ exports, blobs, clock: { now: () => Date.now() + 2 * dayMs } })
  expect(await names()).toStrictEqual([...ofOthers, 'upload of exports/photos'].sort())
  await blobs.remove(ofOthers)
  await blobs.abortMultipartUpload(upload)
})

test('the record of an export goes 90 days after its end, but for those with a file, schedules and their latest run', async () => {
  const { exports, blobs, postgres } = rig
  const now = Date.now()
  const scheduled = { frequency: 'monthly', nextRun: now + dayMs, paused: false } as const
  const { exportId: schedule, siteId: site } = await addExport(exports, { scheduled }, now - 100 * dayMs)
  const end = async (status: ExportStatus, finishedAt: number): Promise<string> => {
    const { exportId } = await addExport(exports, { site }, now - 91 * dayMs)
    await postgres.db
      .updateTable('exports')
      .set({ status, finished_at: new Date(finishedAt), due_at: null })
      .where('export_id', '=', exportId)
      .execute()
    return exportId
  }
  const endRun = async (occurrence: number): Promise<string> => {
    const exportId = await end('failed', now - 90 * dayMs)
    await postgres.db
      .updateTable('exports')
      .set({ schedule_id: schedule, occurrence: new Date(occurrence) })
      .where('export_id', '=', exportId)
      .execute()
    return exportId
  }
  await end('expired', now - 90 * dayMs)
  await end('failed', now - 90 * dayMs)
  await endRun(now - 92 * dayMs)
  const latestRun = await endRun(now - 91 * dayMs)
  const recent = await end('expired', now - 90 * dayMs + 1)
  const withFile = await end('completed', now - 90 * dayMs)
  const { exportId: waiting } = await addExport(exports, { site }, now - 91 * dayMs)
  await removeUnneededExportFiles({ exports, blobs, clock: { now: () => now } })
  const { exports: kept } = await exports.list(site, exportTypes, { limit: 10, offset: 0 })
  const ids = kept.map(({ exportId }) => exportId)
  expect(ids.sort()).toStrictEqual([recent, withFile, waiting, schedule].sort())
  const { runs } = await exports.runs(schedule, { limit: 10, offset: 0 })
  expect(runs.map(({ exportId }) => exportId)).toStrictEqual([latestRun])
  for (const id of ids) await exports.delete(id, null)
})

test('files and uploads go when no export needs them any more, and no earlier, by a compared clock', async () => {
  const { exports, blobs } = rig
  const site = await rig.database.siteWith([{ at: 0 }])
  const kept = await rig.exportAll(site, { format: 'csv' })
  const deleted = await rig.exportAll(site, { format: 'csv' })
  await exports.delete(deleted.exportId, null)
  const failed = await addExport(exports, { site }, 0)
  const { lease } = await rig.take()
  const left = await blobs.createMultipartUpload(`exports/${failed.exportId}`)
  await exports.beginFile(lease, { object: left.name, uploadId: left.uploadId })
  await exports.leases.fail(lease, 'text', 0)
  const running = await addExport(exports, { site }, 0)
  const taken = await rig.take()
  const replaced = await blobs.createMultipartUpload(`exports/${running.exportId}`)
  const used = await blobs.createMultipartUpload(`exports/${running.exportId}`)
  await exports.beginFile(taken.lease, { object: used.name, uploadId: used.uploadId })
  const file = kept.object ?? ''
  // What an earlier attempt wrote before its worker was cut off.
  const earlier = `exports/${kept.exportId}.0`
  await blobs.write(earlier, Readable.from([Buffer.from('rows')]))

  const clean = (now: number) => removeUnneededExportFiles({ exports, blobs, clock: { now: () => now } })
  const upload = `upload of exports/${running.exportId}`
  expect(await names()).toStrictEqual(
    [file, earlier, deleted.object, `upload of ${left.name}`, upload, `upload of ${replaced.name}`].sort(),
  )
  const expiresAt = kept.expiresAt ?? 0
  const isAhead = { now: () => expiresAt + 100 * dayMs, isCompared: () => false }
  const before = await names()
  await expect(removeUnneededExportFiles({ exports, blobs, clock: isAhead })).rejects.toMatchObject({
    code: 'unavailable',
  })
  expect(await names()).toStrictEqual(before)
  expect(await exports.find(kept.exportId, null)).toMatchObject({ status: 'completed' })
  await clean(expiresAt - 1)
  expect(await names()).toStrictEqual([file, deleted.object, `upload of ${left.name}`, upload, upload].sort())
  await clean(expiresAt)
  expect(await exports.find(kept.exportId, null)).toMatchObject({ status: 'expired' })
  // Uploads and files have times of the store's own clock. A file without a record may be of another Postgres.
  await clean(Date.now())
  expect(await names()).toStrictEqual([deleted.object, `upload of ${left.name}`, upload, upload].sort())
  await clean(Date.now() + 2 * dayMs)
  expect(await names()).toStrictEqual([upload])
  // The parts of the running one are still those of its upload.
  await blobs.uploadPart(used, 1, Buffer.from('x'))
})
