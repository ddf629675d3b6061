import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import type { ExportSpec } from '@sluice/contracts/exports'
import { createMetrics } from '@sluice/runtime/metrics'
import { describeWith } from '../../../tests/support/describe-with.ts'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { createExportRig, exportedAt, type ExportRig } from '../../../tests/support/export-rig.ts'
import { noon } from '../../../tests/support/stats-database.ts'
import { canMountTmpfs, mountRight, mountTmpfs, unmount } from '../../../tests/support/tmpfs.ts'
import { addDiskMetrics } from '../blobs/disk-metrics.ts'

const mebibyte = 1024 * 1024
const now = exportedAt + 3_600_000

describeWith(mountRight, canMountTmpfs())('on a small disk', () => {
  const disk = join(mkdtempSync(join(tmpdir(), 'sluice-small-disk-')), 'disk')
  let rig: ExportRig
  let site: string

  beforeAll(async () => {
    mkdirSync(disk)
    mountTmpfs(disk, 'size=24m')
    rig = await createExportRig(() => openBlobStore(`file:${disk}`))
    site = randomUUID()
    // 30 MB, or 20 MB compressed. The former does not fit on the disk. The latter does not fit together with the copy
    // that completes it.
    await rig.database.owner.command(
      `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, url, received_at)
       SELECT {site_id:String}, 'prod', 'view', fromUnixTimestamp64Milli({noon:Int64} + number), toString(number),
         base64Encode(randomString(1200)), fromUnixTimestamp64Milli({noon:Int64})
       FROM numbers(16000)`,
      { params: { site_id: site, noon } },
    )
  })

  beforeEach(() => {
    execFileSync('mount', ['-o', 'remount,size=24m', disk])
  })

  afterEach(async () => {
    for await (const { name } of rig.blobs.list('')) await rig.blobs.remove([name])
  })

  afterAll(async () => {
    await rig.drop()
    unmount(disk)
    rmSync(join(disk, '..'), { recursive: true })
  })

  const freeBytes = async () => (await rig.blobs.disk())?.freeBytes ?? 0

  async function take(spec: Partial<ExportSpec>) {
    const { exportId } = await addExport(rig.exports, { site, spec }, exportedAt)
    const { job, lease } = await rig.take()
    return { exportId, job, lease, unit: rig.unit({ clock: { now: () => now } }) }
  }

  test('no file is begun while less than a tenth is free, and the export says what it waits for', async () => {
    const { exportId, job, lease, unit } = await take({ type: 'users' })
    const filler = join(disk, 'filler')
    writeFileSync(filler, Buffer.alloc(22 * mebibyte))
    const waits = { waits: 'for free space on the disk of the store of files' }
    expect(await unit(job, lease)).toStrictEqual({ next: now + 60_000, log: waits })
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'processing', uploadId: null, restarts: 0 })
    rmSync(filler)
    expect(await unit(job, lease)).toMatchObject({ next: 'done' })
    await rig.exports.leases.release(lease, null, { isProgress: true })
  })

  test.each([
    ['written part by part', { format: 'ndjson' }],
    ['written as a whole', { format: 'ndjson', compression: 'zstd' }],
  ] as const)(
    'a file %s that does not fit gives its room back, and begins anew when there is more',
    async (_, spec) => {
      const { exportId, lease, unit } = await take(spec)
      const before = await freeBytes()
      const current = async () =>
        (await rig.exports.find(exportId, null)) ?? Promise.reject(new Error('it has vanished'))
      let result = await unit(await current(), lease)
      while (result.next === 'now') result = await unit(await current(), lease)
      expect(result).toMatchObject({ next: now + 60_000 })
      expect(await current()).toMatchObject({ status: 'processing', restarts: 1, rows: 0 })
      expect(await freeBytes()).toBeGreaterThan(before - mebibyte)

      // At the next look, other files have filled the disk.
      const filler = join(disk, 'filler')
      writeFileSync(filler, Buffer.alloc(22 * mebibyte))
      expect(await unit(await current(), lease)).toMatchObject({ next: now + 60_000 })
      rmSync(filler)
      execFileSync('mount', ['-o', 'remount,size=100m', disk])
      await rig.exports.leases.release(lease, exportedAt, { isProgress: true })
      await rig.work()
      expect(await current()).toMatchObject({ status: 'completed', rows: 16_000, restarts: 1 })
    },
  )

  test('the parts of a file that was interrupted give their room back while it waits', async () => {
    const { exportId, lease, unit } = await take({ format: 'ndjson', compression: 'zstd' })
    const upload = await rig.blobs.createMultipartUpload('exports/interrupted')
    await rig.exports.beginFile(lease, { object: upload.name, uploadId: upload.uploadId })
    await rig.blobs.uploadPart(upload, 1, Buffer.alloc(10 * mebibyte))
    const filler = join(disk, 'filler')
    writeFileSync(filler, Buffer.alloc(13 * mebibyte))
    const job = (await rig.exports.find(exportId, null)) ?? Promise.reject(new Error('it has vanished'))
    expect(await unit(await job, lease)).toMatchObject({ next: now + 60_000 })
    expect(await freeBytes()).toBeGreaterThan(10 * mebibyte)
    rmSync(filler)
    execFileSync('mount', ['-o', 'remount,size=100m', disk])
    await rig.exports.leases.release(lease, exportedAt, { isProgress: true })
    await rig.work()
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'completed', rows: 16_000 })
  })

  test('an export whose file has found no room ten times fails with the reason, and leaves nothing', async () => {
    const before = await freeBytes()
    const record = await rig.exportAll(site, { format: 'ndjson' })
    expect(record).toMatchObject({ status: 'failed', error: expect.stringContaining('had no room for the file') })
    expect(await freeBytes()).toBeGreaterThan(before - mebibyte)
  })

  test('its free bytes and its size are metrics', async () => {
    const metrics = createMetrics()
    addDiskMetrics(metrics, rig.blobs)
    writeFileSync(join(disk, 'filler'), Buffer.alloc(10 * mebibyte))
    const text = await metrics.metrics()
    rmSync(join(disk, 'filler'))
    expect(text).toContain(`\nsluice_blobs_disk_size_bytes ${24 * mebibyte}\n`)
    const free = Number(/^sluice_blobs_disk_free_bytes (\d+)$/m.exec(text)?.[1])
    expect(free).toBeGreaterThan(13 * mebibyte)
    expect(free).toBeLessThanOrEqual(14 * mebibyte)
  })
})

test('a store without a disk of its own has no such metrics', async () => {
  const metrics = createMetrics()
  addDiskMetrics(metrics, { disk: () => Promise.resolve(undefined) })
  expect(await metrics.metrics()).not.toMatch(/^sluice_blobs_disk\w+ /m)
})
