import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from '@jest/globals'
import { type Block, blockVersion } from '@sluice/event-log/block'
import { compressBlocks, decompressBlock } from '@sluice/event-log/compression'
import { blockEncoder } from '@sluice/event-log/encode-blocks'
import { createKafkaPublisher } from '@sluice/event-log/kafka/publisher'
import { decodeRecord, encodeRecord } from '@sluice/event-log/kafka/record'
import type { LogBatch } from '@sluice/event-log/log'
import { openEventLog } from '@sluice/event-log/open-event-log'
import { encodeEvent } from '@sluice/events/encode-event'
import { classifyBlocks } from '@sluice/writer/classify-blocks'
import { livePolicy } from '@sluice/writer/lane-policy'
import { storeBatch } from '@sluice/writer/store-batch'
import { capturedLogger } from '../support/captured-logger.ts'
import { goodEvents } from './event-samples.ts'
import { expectGolden, joinBlocks, lineJson, maskIds, prettyJson } from './golden.ts'

const receivedAt = Date.UTC(2026, 0, 15, 12)

/** Blocks of the sample events, as the gateway packs them for six partitions. */
function packed(): Block[] {
  const encoder = blockEncoder({ partitions: 6, defaultPartition: 4 })
  for (const json of goodEvents.slice(0, 12)) {
    encoder.add([encodeEvent(JSON.parse(json), { receivedAt, environment: 'prod' })])
  }
  encoder.add(
    Array.from({ length: 20 }, (_, n) =>
      encodeEvent(
        { site_id: 'shop', event_type: 'view', event_id: `id-${n % 10}`, timestamp: receivedAt, properties: { n } },
        { receivedAt, environment: 'prod' },
      ),
    ),
  )
  return encoder.finish()
}

const letter = {
  reason: 'refused',
  code: 117,
  text: 'Unknown field',
  at: receivedAt,
  partition: 3,
  offset: '9007199254740993',
} as const

const blocks: Readonly<Record<string, Block>> = {
  'dated rows': { partition: 0, headers: { v: blockVersion, rows: 1, bytes: 3 }, payload: Buffer.from('{}\n') },
  'undated rows': {
    partition: 5,
    headers: { v: blockVersion, rows: 2, bytes: 6, undated: true },
    payload: Buffer.from('{}\n{}\n'),
  },
  'a dead letter': {
    partition: 1,
    headers: { v: blockVersion, rows: 1, bytes: 3, letter },
    payload: Buffer.from('{}\n'),
  },
  'a compressed block': {
    partition: 2,
    headers: { v: blockVersion, rows: 1, bytes: 9_000, encoding: 'zstd' },
    payload: Buffer.from('compressed'),
  },
}

function described({ partition, headers, payload }: Block): string {
  return `partition ${partition}, headers ${lineJson(headers)}, ${payload.length} bytes`
}

test('events are packed into the blocks of the golden file', () => {
  const text = packed()
    .map((block) => `${described(block)}\n${maskIds(block.payload.toString('utf8'))}`)
    .join('\n')
  expectGolden('log/blocks.txt', text)
})

test('blocks are Kafka records as in the golden file', () => {
  expectGolden(
    'log/kafka-records.txt',
    joinBlocks(
      Object.entries(blocks).map(([heading, block]) => {
        const { value, ...record } = encodeRecord(block)
        return { heading, text: `${lineJson(record)}\nvalue: ${String(value)}` }
      }),
    ),
  )
})

interface SentBatch {
  topicMessages: { topic: string; messages: { partition: number; value: Buffer }[] }[]
}

test('the producer sends what the golden file holds', async () => {
  const sent: unknown[] = []
  const producer = {
    events: { REQUEST_TIMEOUT: 'producer.network.request_timeout' },
    on: () => () => undefined,
    connect: () => Promise.resolve(),
    disconnect: () => Promise.resolve(),
    sendBatch: ({ topicMessages, ...batch }: SentBatch) => {
      // The length of what is compressed depends on the version of zstd.
      const records = topicMessages.map(({ topic, messages }) => ({
        topic,
        messages: messages.map(({ value: _, ...message }) => message),
      }))
      sent.push({ ...batch, topicMessages: records })
      const partitions = topicMessages.flatMap(({ messages }) => messages.map(({ partition }) => partition))
      return Promise.resolve([...new Set(partitions)].map((partition) => ({ partition, errorCode: 0 })))
    },
  }
  let options: { createPartitioner?: () => (input: { message: object }) => number } = {}
  const kafka = {
    producer: (given: typeof options) => {
      options = given
      return producer
    },
  }
  const client = { kafka, cutOff: () => undefined, close: (disconnect: () => Promise<void>) => disconnect() }
  const publisher = createKafkaPublisher({
    topic: 'events',
    partitions: () => Promise.resolve(6),
    createClient: () => client as unknown as ReturnType<Parameters<typeof createKafkaPublisher>[0]['createClient']>,
    unacknowledgedBytesMax: 1e9,
    logger: capturedLogger().logger,
  })
  const rows = Buffer.from('{"site_id":"shop","event_type":"view"}\n'.repeat(400))
  await publisher.publish(
    [
      ...Object.values(blocks),
      { partition: 3, headers: { v: blockVersion, rows: 400, bytes: rows.length }, payload: rows },
      ...[1, 2].map((rows): Block => ({
        partition: 1,
        headers: { v: blockVersion, rows, bytes: 600_000 },
        // Random bytes, which compression cannot shorten.
        payload: incompressible(600_000),
      })),
    ],
    { timeoutMs: 1_900 },
  )
  await publisher.close()
  const partitioner = options.createPartitioner?.()
  expectGolden(
    'log/kafka-requests.txt',
    joinBlocks([
      { heading: 'the producer’s options', text: lineJson(options) },
      {
        heading: 'the partition of a message that names one, and of one that names none',
        text: lineJson([partitioner?.({ message: { partition: 5 } }), partitioner?.({ message: {} })]),
      },
      ...sent.map((batch, index) => ({ heading: `request ${index + 1}`, text: prettyJson(batch) })),
    ]),
  )
})

/** Bytes of a linear congruential generator. */
function incompressible(length: number): Buffer {
  const bytes = Buffer.alloc(length)
  let state = 1
  for (let n = 0; n < length; n++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    bytes[n] = state >>> 24
  }
  return bytes
}

test('blocks are compressed when they are worth it, as in the golden file', () => {
  const lengths = [0, 8_191, 8_192, 100_000]
  const lines = [false, true].flatMap((isRandom) =>
    lengths.map((length) => {
      const payload = isRandom ? incompressible(length) : Buffer.alloc(length, 'row\n')
      const block: Block = { partition: 0, headers: { v: blockVersion, rows: 1, bytes: length }, payload }
      const [stored = block] = compressBlocks([block])
      const back = decompressBlock(stored)
      expect([back.headers, back.payload.equals(payload)]).toEqual([block.headers, true])
      return `${length} bytes${isRandom ? ' that can not be compressed' : ''}: ${lineJson(stored.headers)}`
    }),
  )
  const [stored] = compressBlocks([
    { partition: 0, headers: { v: blockVersion, rows: 1, bytes: 9_000 }, payload: Buffer.alloc(9_000, 'row\n') },
  ])
  if (stored === undefined) throw new Error('a block is stored')
  const broken = [
    { ...stored, payload: Buffer.from('no zstd') },
    { ...stored, headers: { ...stored.headers, bytes: 8_999 } },
    { ...stored, headers: { ...stored.headers, bytes: 9_001 } },
  ].map((block) => `broken: ${described(decompressBlock(block))}`)
  expectGolden('log/compression.txt', `${[...lines, ...broken].join('\n')}\n`)
})

const count = (text: string): Buffer => Buffer.from(text)

const records: Readonly<
  Record<string, { value: Buffer | null; headers?: Record<string, Buffer | string | Buffer[]> }>
> = {
  'no headers': { value: Buffer.from('{}\n') },
  'no value': { value: null, headers: { v: count('1'), rows: count('1'), bytes: count('3') } },
  'another version': { value: Buffer.from('{}\n'), headers: { v: count('2'), rows: count('1') } },
  'a version that is no number': { value: Buffer.from('{}\n'), headers: { v: count('1.0'), rows: count('-1') } },
  'headers as text': { value: Buffer.from('{}\n'), headers: { v: '1', rows: '1', bytes: '3', undated: 'true' } },
  'a header twice': { value: Buffer.from('{}\n'), headers: { v: [count('1'), count('1')], rows: count('1') } },
  'undated that is not true': { value: Buffer.from('{}\n'), headers: { v: count('1'), undated: count('1') } },
  'another encoding': {
    value: Buffer.from('x'),
    headers: { v: count('1'), encoding: count('gzip'), bytes: count('9') },
  },
  'zstd without bytes': { value: Buffer.from('x'), headers: { v: count('1'), encoding: count('zstd') } },
  'a broken letter': { value: Buffer.from('x'), headers: { v: count('1'), letter: count('{') } },
  'a letter of another form': { value: Buffer.from('x'), headers: { v: count('1'), letter: count('{"at":1}') } },
  'bytes that are wrong': {
    value: Buffer.from('{}\n'),
    headers: { v: count('1'), rows: count('1'), bytes: count('999') },
  },
}

test('Kafka records are read back as in the golden file', () => {
  const common = { offset: '9007199254740993', timestamp: String(receivedAt), key: null, attributes: 0 }
  const own = Object.entries(blocks).map(([heading, block]) => {
    const { value, headers } = encodeRecord(block)
    const texts = Object.entries(headers ?? {}).map(([name, text]) => [name, Buffer.from(String(text))])
    return { heading, record: { value: value as Buffer, headers: Object.fromEntries(texts) as Record<string, Buffer> } }
  })
  const foreign = Object.entries(records).map(([heading, record]) => ({ heading, record }))
  expectGolden(
    'log/kafka-records-read.txt',
    joinBlocks(
      [...own, ...foreign].map(({ heading, record }) => {
        const { block, ...entry } = decodeRecord(3, { ...common, ...record })
        return { heading, text: `${lineJson(entry)}\n${described(block)}\n${block.payload.toString('utf8')}` }
      }),
    ),
  )
})

test('the file log keeps blocks in the tables of the golden file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-golden-'))
  try {
    const log = await openEventLog(`file:${folder}`, { logger: capturedLogger().logger, file: { partitions: 6 } })
    await log.publish(Object.values(blocks), { timeoutMs: 5_000 })
    await log.committedOffsets('writer')
    const id = await log.id()
    await log.close()
    expectGolden(
      'log/file-log.txt',
      tablesOf(folder)
        .replaceAll(id, '<id>')
        .replaceAll(/\b1[6-9]\d{11}\b/g, '<now>'),
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

/** The schema and the rows of every table of a file log. */
function tablesOf(folder: string): string {
  const database = new DatabaseSync(join(folder, 'log.sqlite'), { readOnly: true })
  const tables = database.prepare('SELECT name, sql FROM sqlite_master ORDER BY type, name').all()
  const text = joinBlocks([
    { heading: 'version', text: lineJson(database.prepare('PRAGMA user_version').get()) },
    ...tables.map(({ name, sql }) => ({
      heading: String(name),
      text: [
        String(sql),
        ...database
          .prepare(`SELECT * FROM "${String(name)}"`)
          .all()
          .map((row) =>
            JSON.stringify(row, (_name, value: unknown) =>
              value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value,
            ),
          ),
      ].join('\n'),
    })),
  ])
  database.close()
  return text
}

const batch: LogBatch = {
  partition: 3,
  firstOffset: 7n,
  nextOffset: 12n,
  blocks: [
    ...Object.values(blocks).slice(0, 2),
    { partition: 3, headers: { v: 0 as typeof blockVersion, rows: 0, bytes: 2 }, payload: Buffer.from('{}') },
    { partition: 3, headers: { v: blockVersion, rows: 2, bytes: 3 }, payload: Buffer.from('{}\n') },
    { partition: 3, headers: { v: blockVersion, rows: 1, bytes: 2 }, payload: Buffer.from('{}') },
  ],
  offsets: [7n, 8n, 9n, 10n, 11n],
  rows: 6,
  bytes: 16,
  oldestAppendedAt: receivedAt,
}

/** Replaces the times at which dead letters were written. */
function withoutTimes(text: string): string {
  return text.replaceAll(/(at\\?":)\d+/g, '$1<now>')
}

test('the writer gives up blocks as in the golden file', () => {
  const { readable, dead } = classifyBlocks(batch)
  expectGolden(
    'log/dead-letters.txt',
    withoutTimes(
      [
        ...readable.map((block) => `readable: ${described(block)}`),
        ...dead.map((block) => `dead: ${described(block)}\n${lineJson(encodeRecord(block).headers)}`),
        '',
      ].join('\n'),
    ),
  )
})

test('the writer inserts batches with the options of the golden file', async () => {
  const inserted: string[] = []
  const { dead } = await storeBatch(
    batch,
    { isFirstOfClaim: true, signal: new AbortController().signal },
    {
      policy: livePolicy(),
      inserter: {
        insert: ({ payloads, hasUndated }, options) => {
          inserted.push(
            lineJson({ payloads: payloads.map((payload) => payload.toString('utf8')), hasUndated, options }),
          )
          return Promise.resolve({ inserted: 1, readRows: 1 })
        },
        findBadRows: () => Promise.resolve([]),
      },
      withSlot: (work) => work(),
      logId: 'log-id',
      logger: capturedLogger().logger,
      onRetry: () => undefined,
    },
  )
  expectGolden('log/inserts.txt', withoutTimes(`${[...inserted, ...dead.map(described)].join('\n')}\n`))
})
