import { randomUUID } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { removeFiles } from '@sluice/blobs/remove-files'
import type { Criteria } from '@sluice/contracts/conditions'
import type { ExportSpec } from '@sluice/contracts/exports'
import { AppError } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import { describeWithS3, testS3 } from '../../../tests/support/engines/test-engines.ts'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { createExportRig, exportedAt, type ExportRig, Killed } from '../../../tests/support/export-rig.ts'
import { noon } from '../../../tests/support/stats-database.ts'
import type { ExportUnitDeps } from './export-unit.ts'

/** 32 MB, compressed 24 MB, so that a file has at least three parts. */
const count = 5_000
/** About 6 MB, so that a unit has two slices. */
const sliceEventsMax = 1_000

/** Events whose texts gzip can't make small, so that a file has several parts. */
async function addEvents({ database }: ExportRig, number = count): Promise<string> {
  const siteId = randomUUID()
  await database.owner.command(
    `INSERT INTO events (site_id, environment, event_type, user_id, timestamp, event_id, url, received_at)
     SELECT {site_id:String}, 'prod', 'view', 'anna', fromUnixTimestamp64Milli({noon:Int64} + intDiv(number, 7)), concat('e', toString(number)),
       base64Encode(randomString(4800)), fromUnixTimestamp64Milli({noon:Int64})
     FROM numbers(${number})`,
    { params: { site_id: siteId, noon } },
  )
  return siteId
}

function withEvent(eventType: string): Criteria {
  return { type: 'and', conditions: [{ property: 'event_type', operator: 'equals', value: eventType }] }
}

function ids(file: Buffer): string[] {
  const lines = file.toString().split('\n')
  expect(lines.pop()).toBe('')
  return lines.map((line) => (JSON.parse(line) as { event_id: string }).event_id)
}

const everyId = Array.from({ length: count }, (_, n) => `e${n}`).sort()

/** Kills the worker after each step of its work, and when a step has begun, once. */
function killing({ exports, blobs }: ExportRig): { deps: Partial<ExportUnitDeps>; killed: string[] } {
  const killed: string[] = []
  const kill = (step: string): void => {
    if (killed.includes(step)) return
    killed.push(step)
    throw new Killed(step)
  }
  const around = <A extends unknown[], R>(name: string, work: (...args: A) => Promise<R>) => {
    return async (...args: A): Promise<R> => {
      const step = `${name} ${name === 'uploadPart' ? String(args[1]) : ''}`
      kill(`before ${step}`)
      const result = await work(...args)
      kill(`after ${step}`)
      return result
    }
  }
  return {
    killed,
    deps: {
      sliceEventsMax,
      exports: {
        ...exports,
        beginFile: around('beginFile', (...args: Parameters<typeof exports.beginFile>) => exports.beginFile(...args)),
        recordParts: around('recordParts', (...args: Parameters<typeof exports.recordParts>) =>
          exports.recordParts(...args),
        ),
        complete: around('complete', (...args: Parameters<typeof exports.complete>) => exports.complete(...args)),
      },
      blobs: {
        ...blobs,
        write: (...args) => blobs.write(...args),
        remove: (...args) => blobs.remove(...args),
        abortMultipartUpload: (...args) => blobs.abortMultipartUpload(...args),
        createMultipartUpload: (...args) => blobs.createMultipartUpload(...args),
        disk: () => blobs.disk(),
        uploadPart: around('uploadPart', (...args: Parameters<BlobStore['uploadPart']>) => blobs.uploadPart(...args)),
        completeMultipartUpload: around(
          'completeMultipartUpload',
          (...args: Parameters<BlobStore['completeMultipartUpload']>) => blobs.completeMultipartUpload(...args),
        ),
      },
    },
  }
}

/** `openBlobs` undefined: a folder of the rig. */
function describeResuming(
  openBlobs: (() => Promise<BlobStore>) | undefined,
  compressions: Partial<ExportSpec>[],
): void {
  let rig: ExportRig
  let siteId: string

  beforeAll(async () => {
    rig = await createExportRig(openBlobs)
    siteId = await addEvents(rig)
  })
  afterAll(async () => {
    await rig.drop()
  })

  /** The names of an export's blobs and uploads. */
  async function filesOf(exportId: string): Promise<string[]> {
    const names: string[] = []
    for await (const { name } of rig.blobs.list(`export-files/${exportId}`)) names.push(name)
    for await (const { name } of rig.blobs.listMultipartUploads()) if (name.includes(exportId)) names.push(name)
    return names
  }

  test.each(compressions.flatMap((parts) => [0, 60_000].map((unitMs) => ({ unitMs, parts }))))(
    'whose worker is killed at every step is whole (%j)',
    async ({ unitMs, parts }) => {
      const spec = { format: 'ndjson', ...parts } as const
      const { exportId } = await addExport(rig.exports, { site: siteId, spec }, exportedAt)
      const { deps, killed } = killing(rig)
      await rig.work({ ...deps, unitMs })
      expect(killed).toContain('after uploadPart 3')
      expect(killed).toContain('before complete ')
      const file = await rig.file(exportId)
      expect(await rig.exports.find(exportId, null)).toMatchObject({
        status: 'completed',
        rows: count,
        bytes: file.length,
      })
      expect(ids(parts.compression ? gunzipSync(file) : file).sort()).toStrictEqual(everyId)
    },
  )

  test('whose worker loses its lease is written by the next one alone', async () => {
    const { exportId } = await addExport(rig.exports, { site: siteId, spec: { format: 'ndjson' } }, exportedAt)
    const gate = Promise.withResolvers<undefined>()
    const reached = Promise.withResolvers<undefined>()
    const frozen: ExportUnitDeps['blobs'] = {
      ...rig.blobs,
      uploadPart: async (...args) => {
        reached.resolve(undefined)
        await gate.promise
        return rig.blobs.uploadPart(...args)
      },
    }
    const lost = await rig.take()
    const late = rig
      .unit({ blobs: frozen, sliceEventsMax })(lost.job, lost.lease)
      .catch((error: unknown) => error)
    await reached.promise
    const next = await rig.take()
    await rig.unit({ sliceEventsMax })(next.job, next.lease)
    // The frozen worker continues: it writes the first part again, after that part was recorded.
    gate.resolve(undefined)
    expect(await late).toMatchObject({ name: 'LeaseLostError' })
    await rig.exports.leases.release(next.lease, exportedAt, { isProgress: true })
    await rig.work({ sliceEventsMax })
    const file = await rig.file(exportId)
    expect(await rig.exports.find(exportId, null)).toMatchObject({
      status: 'completed',
      rows: count,
      bytes: file.length,
    })
    expect(ids(file).sort()).toStrictEqual(everyId)
  })

  test('has all rows when it is made again, as by an earlier build that took a completed export once more', async () => {
    const { exportId } = await addExport(rig.exports, { site: siteId, spec: { format: 'json' } }, exportedAt)
    await rig.work({ sliceEventsMax })
    const file = await rig.file(exportId)
    const due = rig.postgres.db.updateTable('exports').set({ due_at: new Date(exportedAt) })
    await due.where('export_id', '=', exportId).execute()
    expect(await rig.work({ sliceEventsMax })).toBeGreaterThan(1)
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'completed', rows: count })
    expect((await rig.file(exportId)).equals(file)).toBe(true)
  })

  test('that can never be completed is given up after ten times', async () => {
    const site = await addEvents(rig, 10)
    const { exportId } = await addExport(rig.exports, { site, spec: { format: 'ndjson' } }, exportedAt)
    let attempts = 0
    const blobs: ExportUnitDeps['blobs'] = {
      ...rig.blobs,
      completeMultipartUpload: ({ name }) => {
        if (++attempts > 12) throw new Error('it goes on without end')
        return Promise.reject(new AppError('conflict', { message: `the upload of ${name} lacks a part` }))
      },
    }
    await rig.work({ blobs, sliceEventsMax, unitMs: 60_000 })
    expect(attempts).toBe(10)
    // The clean-up removes the last upload.
    expect((await filesOf(exportId)).length).toBe(1)
    expect(await rig.exports.find(exportId, null)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('Request the export again') as unknown,
    })
  })

  test('that erasures start again each time is given up after ten times', async () => {
    const site = await addEvents(rig, 10)
    const { exportId } = await addExport(rig.exports, { site, spec: { format: 'ndjson' } }, exportedAt)
    let beginnings = 0
    const blobs: ExportUnitDeps['blobs'] = {
      ...rig.blobs,
      uploadPart: async (...args) => {
        if (++beginnings > 12) throw new Error('it goes on without end')
        await rig.exports.withdraw(site, exportedAt)
        return rig.blobs.uploadPart(...args)
      },
    }
    await rig.work({ blobs, sliceEventsMax, unitMs: 60_000 })
    expect(beginnings).toBe(10)
    expect(await rig.exports.find(exportId, null)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('each erasure of the site starts it again') as unknown,
    })
  })

  test.each([
    ['changed', (cohortId: string) => rig.cohorts.update(cohortId, null, { criteria: withEvent('purchase') })],
    ['removed', (cohortId: string) => rig.cohorts.delete(cohortId, null)],
  ])('of a cohort that is %s meanwhile has the members of its beginning', async (_, change) => {
    const cohortId = newId('coh')
    const settings = { name: 'Viewers', description: null, criteria: withEvent('view') }
    await rig.cohorts.create({ cohortId, siteId, settings })
    const spec = { format: 'ndjson', cohort_id: cohortId } as const
    const { exportId } = await addExport(rig.exports, { site: siteId, spec }, exportedAt)
    const { job, lease } = await rig.take()
    await rig.unit({ sliceEventsMax })(job, lease)
    await rig.exports.leases.release(lease, exportedAt, { isProgress: true })
    await change(cohortId)
    await rig.work({ sliceEventsMax })
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'completed', rows: count })
    expect(ids(await rig.file(exportId)).sort()).toStrictEqual(everyId)
  })

  test('that is deleted meanwhile leaves nothing', async () => {
    const { exportId } = await addExport(rig.exports, { site: siteId, spec: { format: 'ndjson' } }, exportedAt)
    const { job, lease } = await rig.take()
    await rig.unit({ sliceEventsMax })(job, lease)
    await rig.exports.leases.release(lease, exportedAt, { isProgress: true })
    const second = await rig.take()
    expect(second.job).toMatchObject({ rows: 2 * sliceEventsMax, status: 'processing' })
    expect(second.job.progress).toBeGreaterThan(20)
    await rig.exports.delete(exportId, null)
    await expect(rig.unit({ sliceEventsMax })(second.job, second.lease)).rejects.toMatchObject({
      name: 'LeaseLostError',
    })
    expect(await filesOf(exportId)).toStrictEqual([])
  })

  test('that is deleted when its worker has just taken it leaves nothing', async () => {
    const { exportId } = await addExport(rig.exports, { site: siteId, spec: { format: 'ndjson' } }, exportedAt)
    const { job, lease } = await rig.take()
    await rig.exports.delete(exportId, null)
    await expect(rig.unit({ sliceEventsMax })(job, lease)).rejects.toMatchObject({ name: 'LeaseLostError' })
    expect(await filesOf(exportId)).toStrictEqual([])
  })

  test('that an erasure withdraws while its worker completes it leaves nothing', async () => {
    const site = await addEvents(rig, 10)
    const { exportId } = await addExport(rig.exports, { site, spec: { format: 'ndjson' } }, exportedAt)
    const { job, lease } = await rig.take()
    const reached = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const blobs: ExportUnitDeps['blobs'] = {
      ...rig.blobs,
      completeMultipartUpload: async (...args) => {
        reached.resolve(undefined)
        await gate.promise
        return rig.blobs.completeMultipartUpload(...args)
      },
    }
    const late = rig
      .unit({ blobs })(job, lease)
      .catch((error: unknown) => error)
    await reached.promise
    // The worker continues after the first removal, whichever that is.
    const continueLate = async (): Promise<void> => {
      gate.resolve(undefined)
      await late
    }
    await removeFiles(
      {
        remove: (names) => rig.blobs.remove(names).then(continueLate),
        abortMultipartUpload: (upload) => rig.blobs.abortMultipartUpload(upload).then(continueLate),
      },
      await rig.exports.withdraw(site, exportedAt),
    )
    expect(await late).toMatchObject({ name: 'LeaseLostError' })
    expect(await filesOf(exportId)).toStrictEqual([])
    await rig.exports.delete(exportId, null)
  })
}

describe('a file in a folder', () => {
  describeResuming(undefined, [{}, { compression: 'gzip' }])
})

describeWithS3('a file in S3', () => {
  describeResuming(() => {
    const { url, credentials } = testS3()
    return openBlobStore(url, { credentials })
  }, [{}])
})
