import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, test } from '@jest/globals'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { notFound } from '@sluice/runtime/errors'
import { importUnit, type ImportUnitDeps, openBlob } from './import-unit.ts'

const endless = () => new Readable({ read: () => undefined })

test('a lease that ends before a segment is open ends the work alone, and the segment is closed', async () => {
  const abort = new AbortController()
  const content = endless()
  const read = () => {
    abort.abort(new Error('the lease was lost'))
    return Promise.resolve(content)
  }
  await expect(openBlob({ read }, 'segment', abort.signal)).rejects.toThrow('the lease was lost')
  expect(content.destroyed).toBe(true)
  // An `error` event without a listener would end the process.
  expect(content.errored).toBeNull()
})

test('a lease that ends later ends the reading', async () => {
  const abort = new AbortController()
  const content = await openBlob({ read: () => Promise.resolve(endless()) }, 'segment', abort.signal)
  const reading = content?.toArray()
  abort.abort(new Error('the lease was lost'))
  await expect(reading).rejects.toThrow('aborted')
})

test('a segment that is not there is told from one that can not be read', async () => {
  const { signal } = new AbortController()
  expect(await openBlob({ read: () => Promise.reject(notFound('Blob')) }, 'segment', signal)).toBeUndefined()
  const read = () => Promise.reject(new Error('S3 is unavailable'))
  await expect(openBlob({ read }, 'segment', signal)).rejects.toThrow('S3 is unavailable')
})

test('a segment on a volume that is not mounted is one that can not be read, and does not fail the import', async () => {
  const root = mkdtempSync(join(tmpdir(), 'sluice-volume-'))
  const folder = join(root, 'volume')
  const blobs = await openBlobStore(`file:${folder}`)
  await blobs.write('segment', Readable.from([Buffer.from('{}')]))
  renameSync(folder, join(root, 'aside'))
  mkdirSync(folder)
  const { signal } = new AbortController()
  await expect(openBlob(blobs, 'segment', signal)).rejects.toMatchObject({ code: 'unavailable', retryable: true })
  rmSync(folder, { recursive: true })
  renameSync(join(root, 'aside'), folder)
  const content = await openBlob(blobs, 'segment', signal)
  expect(content && (await text(content))).toBe('{}')
  rmSync(root, { recursive: true })
})

test('a lease that ends while the placement of events is checked ends the work, and nothing is published', async () => {
  const abort = new AbortController()
  const lost = new Error('the lease was lost')
  const published: unknown[] = []
  const deps = {
    imports: {
      nextSegment: () => Promise.resolve({ n: 0, object: 'segment', records: 1 }),
      find: () => Promise.resolve(undefined),
    },
    sites: { findRegistered: () => Promise.resolve(new Map()) },
    watermarks: { isBackfillRead: () => Promise.resolve(true) },
    shards: {
      readState: () => {
        abort.abort(lost)
        return Promise.resolve({ number: 1, doublingSince: null })
      },
    },
    blobs: { read: () => Promise.resolve(endless()), disk: () => Promise.resolve(undefined) },
    log: { id: () => Promise.resolve('log'), partitions: () => Promise.resolve(1) },
    backfill: {
      partitions: () => Promise.resolve(1),
      publish: (blocks: unknown) => {
        published.push(blocks)
        return Promise.resolve()
      },
    },
    encoder: {
      encode: async (_content, _task, store) => {
        await store({ blocks: [] })
        return { processed: 1, failed: 0, errors: undefined }
      },
    },
    pace: { startUnit: () => ({ waitUntilClear: () => Promise.resolve() }) },
  } as Partial<Record<keyof ImportUnitDeps, unknown>> & { encoder: Pick<ImportUnitDeps['encoder'], 'encode'> }
  const job = { type: 'events', siteId: 'shop', importId: 'imp_1' }
  const work = importUnit(deps as ImportUnitDeps)(job as never, { id: 'imp_1', lease: 1, signal: abort.signal })
  await expect(work).rejects.toBe(lost)
  expect(published).toStrictEqual([])
})
