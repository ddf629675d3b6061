import { Readable } from 'node:stream'
import type { Worker } from 'node:worker_threads'
import { gunzipSync } from 'node:zlib'
import { afterEach, expect, test } from '@jest/globals'
import { writeSegments } from '@sluice/imports/segments'
import { unavailable } from '@sluice/runtime/errors'
import type { RowBatch, SegmentTask } from './encode-segment.ts'
import { openSegmentEncoder, type SegmentEncoder } from './segment-encoder.ts'

const receivedAt = Date.UTC(2026, 0, 1)
const task: SegmentTask = {
  type: 'events',
  siteId: 'site',
  environment: 'prod',
  receivedAt,
  sha256: 'ab'.repeat(32),
  retentionMs: Infinity,
  partitions: 4,
}
let encoder: SegmentEncoder

afterEach(async () => {
  await encoder.close()
})

async function segmentOf(csv: string): Promise<Readable> {
  const content: Uint8Array[] = []
  async function* file(): AsyncGenerator<Buffer> {
    yield await Promise.resolve(Buffer.from(csv))
  }
  await writeSegments(file(), async (_n, bytes) => {
    for await (const chunk of bytes) content.push(chunk)
  })
  return Readable.from(content)
}

function csv(rows: number): string {
  const lines = Array.from({ length: rows }, (_, n) => `view,${receivedAt - n},${'x'.repeat(200)}\n`)
  return `event_type,timestamp_ms,url\n${lines.join('')}`
}

function linesOf({ blocks = [] }: RowBatch): string[] {
  return blocks.flatMap(({ payload }) => payload.toString().split('\n').slice(0, -1))
}

test('the same segment makes the same rows, each in the partition of its id', async () => {
  encoder = openSegmentEncoder()
  const encodeOnce = async () => {
    const rows: string[] = []
    const outcome = await encoder.encode(await segmentOf(csv(20_000)), task, (batch) => {
      for (const { partition, payload, headers } of batch.blocks ?? []) {
        expect(payload).toHaveLength(headers.bytes)
        for (const line of linesOf({ blocks: [{ partition, payload, headers }] })) rows.push(`${partition} ${line}`)
      }
      return Promise.resolve()
    })
    return { rows: rows.sort(), outcome }
  }
  const first = await encodeOnce()
  expect(first.outcome).toStrictEqual({ processed: 20_000, failed: 0, errors: undefined })
  expect(first.rows).toHaveLength(20_000)
  expect(await encodeOnce()).toStrictEqual(first)
})

test('the errors stand in the order of the file', async () => {
  encoder = openSegmentEncoder()
  const content = await segmentOf(
    `event_type,timestamp_ms\nview,${receivedAt}\n,${receivedAt}\nview,x\nview,${receivedAt}\n`,
  )
  const { processed, failed, errors = Buffer.alloc(0) } = await encoder.encode(content, task, () => Promise.resolve())
  const listed = gunzipSync(errors).toString().split('\n').slice(0, -1)
  expect({ processed, failed }).toStrictEqual({ processed: 4, failed: listed.length })
  expect(listed.map((line) => (JSON.parse(line) as { line: number }).line)).toStrictEqual([3, 4])
})

test('a thread that dies fails its segment, which is not tried without end, and the next segment has another one', async () => {
  const threads: Worker[] = []
  encoder = openSegmentEncoder({ onThread: (thread) => threads.push(thread) })
  const content = await segmentOf(csv(50_000))
  const dying = encoder.encode(
    content.map((chunk) => new Uint8Array(chunk)),
    task,
    async () => {
      await threads[0]?.terminate()
    },
  )
  await expect(dying).rejects.toMatchObject({ code: 'internal', retryable: false })
  const { processed } = await encoder.encode(await segmentOf(csv(50_000)), task, () => Promise.resolve())
  expect([processed, threads.length]).toStrictEqual([50_000, 2])
})

test('the memory of a batch is given back once it is stored', async () => {
  encoder = openSegmentEncoder()
  const kept: RowBatch[] = []
  const bytesOf = ({ blocks = [] }: RowBatch): number => blocks.reduce((sum, { payload }) => sum + payload.length, 0)
  await encoder.encode(await segmentOf(csv(20_000)), task, (batch) => {
    expect(bytesOf(batch)).toBeGreaterThan(0)
    kept.push(batch)
    return Promise.resolve()
  })
  expect(kept.map(bytesOf)).toStrictEqual(kept.map(() => 0))
  expect(kept.length).toBeGreaterThan(1)
})

test('a failure of the store ends the segment, and what is no segment can not be read', async () => {
  encoder = openSegmentEncoder()
  const full = encoder.encode(await segmentOf(csv(10)), task, () => Promise.reject(new Error('full')))
  await expect(full).rejects.toThrow('full')
  const damaged = encoder.encode(Readable.from([new Uint8Array([1, 2, 3])]), task, () => Promise.resolve())
  await expect(damaged).rejects.toMatchObject({ code: 'internal', message: 'The uploaded file cannot be read' })
})

test('a failure to read the segment is thrown as it is, and the segment is read no further', async () => {
  encoder = openSegmentEncoder()
  let isReleased = false
  async function* broken(): AsyncGenerator<Uint8Array> {
    try {
      const chunks = (await (await segmentOf(csv(50_000))).toArray()) as Uint8Array[]
      yield* chunks.slice(0, -1)
      throw unavailable('the store is unavailable')
    } finally {
      isReleased = true
    }
  }
  const failed = encoder.encode(broken(), task, () => Promise.resolve())
  await expect(failed).rejects.toMatchObject({ code: 'unavailable', internal: 'the store is unavailable' })
  expect(isReleased).toBe(true)
})
