import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { replayDeadLetters } from '@sluice/admin/replay-dead-letters/replay'
import { type Block, blockVersion } from '@sluice/event-log/block'
import { type BlockEncoder, blockEncoder } from '@sluice/event-log/encode-blocks'
import { openDeadLetters, openEventLog } from '@sluice/event-log/open-event-log'
import { requirePartitionsMultipleOf } from '@sluice/event-log/require-partitions-multiple-of'
import { type EncodedEvent, encodeEvent } from '@sluice/events/encode-event'
import { hashGeneratedIds } from '@sluice/gateway/publish/hash-generated-ids'
import { encodeImportedEvent } from '@sluice/imports/encode-imported-event'
import { recordParser } from '@sluice/imports/parse-record'
import { capturedLogger } from '../support/captured-logger.ts'

// An event is stored exactly once on several shards only if all of its copies are on one of them: as it was sent first,
// sent again, exported and imported, or replayed, by gateways, workers and logs with different numbers of partitions.

const receivedAt = Date.UTC(2026, 9, 1)

const shardCounts = [1, 2, 4, 8] as const
/** A number of shards, with numbers of partitions that the log has at different times. */
const layouts = fc
  .constantFrom(...shardCounts)
  .chain((shards) =>
    fc.record({ shards: fc.constant(shards), multiples: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 2 }) }),
  )
  .map(({ shards, multiples }) => ({ shards, partitions: multiples.map((multiple) => multiple * shards) }))

const events = fc.record({
  site_id: fc.constantFrom('shop', 'ä/ö', 'blog'),
  event_type: fc.constantFrom('view', 'order'),
  event_id: fc.oneof(
    fc.constant(undefined),
    fc.string({ minLength: 1, maxLength: 64 }).filter((id) => id.trim() !== ''),
    fc.uuid(),
  ),
  timestamp: fc.constantFrom(undefined, receivedAt - 1_000, receivedAt - 400 * 86_400_000),
  url: fc.constantFrom(undefined, 'https://example.org/?a=","event_id":"x'),
})

/** The blocks that a gateway publishes of an event. */
async function publishedBlocks(event: EncodedEvent, partitions: number, defaultPartition: number): Promise<Block[]> {
  let encoder: BlockEncoder | undefined
  const publisher = hashGeneratedIds(
    {
      publish: (published) => {
        encoder = blockEncoder({ partitions, defaultPartition })
        encoder.add(published)
        return Promise.resolve()
      },
    },
    () => true,
  )
  await publisher.publish([event], receivedAt)
  return encoder?.finish() ?? []
}

function partitionOf(blocks: readonly Block[]): number {
  expect(blocks).toHaveLength(1)
  return blocks[0]?.partition ?? NaN
}

function importedBlocks(line: string, partitions: number): Block[] {
  const { site_id, event_id, event_type, timestamp } = JSON.parse(line) as Record<string, string | number>
  const record = Buffer.from(JSON.stringify({ site_id, event_id, event_type, timestamp_ms: timestamp }))
  const parse = recordParser({ format: 'ndjson' }, 'events')
  const job = { siteId: String(site_id), environment: 'prod', receivedAt, sha256: 'a'.repeat(64) } as const
  const { value, error } = encodeImportedEvent({ number: 1, line: 1, bytes: record }, parse, job)
  if (error) throw new Error(JSON.stringify(error))
  const encoder = blockEncoder({ partitions, defaultPartition: 0 })
  encoder.add([value])
  return encoder.finish()
}

test('all copies of an event are on one shard, whatever the numbers of partitions were', async () => {
  await fc.assert(
    fc.asyncProperty(layouts, events, fc.nat(1_000), async ({ shards, partitions }, sent, flush) => {
      const first = encodeEvent(sent, { receivedAt, environment: 'prod' })
      const { event_id: eventId } = JSON.parse(first.line) as { event_id: string }
      const again = encodeEvent({ ...sent, event_id: eventId }, { receivedAt: receivedAt + 5_000, environment: 'prod' })
      const found = new Set<number>()
      for (const count of partitions) {
        requirePartitionsMultipleOf(shards, count)
        found.add(partitionOf(await publishedBlocks(first, count, flush % count)) % shards)
        found.add(partitionOf(await publishedBlocks(again, count, (flush + 1) % count)) % shards)
        found.add(partitionOf(importedBlocks(first.line, count)) % shards)
      }
      expect(found.size).toBe(1)
    }),
    { numRuns: 1_000 },
  )
})

test('a dead letter is replayed to the shard that its rows came from, whatever the number of partitions is then', async () => {
  const shards = 2
  for (const [before, after] of [
    [4, 4],
    [4, 8],
    [8, 2],
  ] as const) {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-placement-'))
    const { logger } = capturedLogger()
    const log = await openEventLog(`file:${folder}/log`, { logger, file: { partitions: after } })
    const deadLetters = await openDeadLetters(`file:${folder}/log`, { logger })
    const count = await deadLetters.partitions()
    const letters = Array.from({ length: before }, (_, partition): Block => {
      const payload = Buffer.from(`{"event_id":"${partition}"}\n`)
      const letter = { reason: 'refused', text: '', at: 1, partition, offset: '0' } as const
      return {
        partition: partition % count,
        payload,
        headers: { v: blockVersion, rows: 1, bytes: payload.length, letter },
      }
    })
    await deadLetters.publish(letters, { timeoutMs: 10_000 })
    await replayDeadLetters({ log, deadLetters })
    const origins = new Map<string, number>()
    const consumer = log.consumer({
      group: 'test',
      batchBytesMax: 1_000_000,
      batchRowsMax: 1_000,
      lingerMs: 0,
      onClaim: async (claim) => {
        for await (const batch of claim.batches()) {
          for (const { payload } of batch.blocks) origins.set(payload.toString(), claim.partition)
          await claim.commit(batch)
          if (origins.size === before) void consumer.stop()
        }
      },
    })
    await consumer.run()
    for (const { payload, headers } of letters) {
      expect((origins.get(payload.toString()) ?? NaN) % shards).toBe((headers.letter?.partition ?? NaN) % shards)
    }
    await log.close()
    await deadLetters.close()
    await rm(folder, { recursive: true })
  }
})
