import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import kafkajs from 'kafkajs'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { LocalKafka } from '../../../tests/support/engines/kafka.ts'
import { describeWithKafka, testKafka } from '../../../tests/support/engines/test-engines.ts'
import { startKafkaBehindProxy } from '../../../tests/support/kafka-behind-proxy.ts'
import { startStopwatch } from '../../../tests/support/stopwatch.ts'
import type { TcpProxy } from '../../../tests/support/tcp-proxy.ts'
import { block, collect } from '../conformance/collect.ts'
import { createKafkaLog, createTopic, kafkaClientOf, topicOf } from '../conformance/kafka-client.ts'
import type { EventLog } from '../log.ts'
import { openEventLog, type OpenEventLogOptions } from '../open-event-log.ts'
import { ensureTopics } from './ensure-topics.ts'
import { readGroupState } from './group-offsets.ts'
import { parseKafkaUrl } from './url.ts'

const timeoutMs = 10_000
/** Kafka's error code OFFSET_OUT_OF_RANGE. */
const offsetOutOfRange = 1
const options: Omit<OpenEventLogOptions, 'logger'> = {
  kafka: { sessionTimeoutMs: 2000, heartbeatIntervalMs: 100 },
}
const logs: EventLog[] = []
/** Ends the endless publishers of a test after it, even if it failed. */
const loops: AbortController[] = []

const open = async (url: string, logger = silentLogger, timing = options) => {
  const log = await openEventLog(url, { ...timing, logger })
  logs.push(log)
  return log
}

/** A logger that keeps its lines as text. */
const listen = () => {
  const lines: string[] = []
  const keep = (fields: unknown, message?: string) => {
    lines.push(
      `${message ?? ''} ${JSON.stringify(fields, (_, value: unknown) => (value instanceof Error ? value.stack : value))}`,
    )
  }
  return { lines, logger: { debug: keep, info: keep, warn: keep, error: keep } }
}

/** Encodes as Snappy in the framing of Kafka's Java clients, with literals only, for less than 64 KiB. */
function snappyOf({ buffer }: { buffer: Buffer }): Promise<Buffer> {
  const { length } = buffer
  const varint = [(length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80, length >> 14]
  const literal = [61 << 2, (length - 1) & 0xff, (length - 1) >> 8]
  const compressed = Buffer.concat([Buffer.from([...varint, ...literal]), buffer])
  const head = Buffer.alloc(20)
  head.write('\x82SNAPPY\0', 'latin1')
  head.writeInt32BE(1, 8)
  head.writeInt32BE(1, 12)
  head.writeInt32BE(compressed.length, 16)
  return Promise.resolve(Buffer.concat([head, compressed]))
}

afterEach(async () => {
  for (const loop of loops.splice(0)) loop.abort()
  await Promise.all(logs.splice(0).map((log) => log.close()))
})

describeWithKafka('records in Kafka', () => {
  test('are read with version 0 when they come from another program', async () => {
    const url = await createKafkaLog()
    const producer = kafkaClientOf(url).producer()
    await producer.connect()
    const foreign = [
      { value: 'no headers' },
      { value: null, headers: { v: '1' } },
      { value: 'odd', headers: { v: 'x', rows: '-1' } },
      { value: '{}\n', headers: { v: '1', rows: '0' } },
      { value: '{}\n', headers: { v: '1', rows: '1.5' } },
      { value: '{}\n', headers: { v: '1', rows: '1767225600000' } },
      { value: '{}\n', headers: { v: '12', rows: '1767225600000' } },
      { value: 'a', headers: { v: '1', rows: '1', bytes: '999999999999999', encoding: 'zstd' } },
      // A block of a later version, which waits for a newer writer.
      { value: '{}\n', headers: { v: '2' } },
    ]
    await producer.send({ topic: topicOf(url), messages: foreign.map((each) => ({ ...each, partition: 0 })) })
    await producer.disconnect()
    const log = await open(url, silentLogger, {})
    await log.publish([block(0, 'ours')], { timeoutMs })

    const reader = collect(log, 'group')
    await waitUntil(() => reader.batches.flatMap(({ blocks }) => blocks).length === 10, 'all records')
    const blocks = reader.batches.flatMap(({ blocks: each }) => each)
    expect(blocks.map(({ headers }) => [headers.v, headers.rows, headers.bytes])).toEqual([
      [0, 0, 10],
      [0, 0, 0],
      [0, 0, 3],
      [0, 0, 3],
      [0, 0, 3],
      [0, 0, 3],
      [12, 0, 3],
      [0, 0, 1],
      [2, 0, 3],
      [1, 1, 5],
    ])
  })

  test.each(['gzip', 'zstd'])('are read when brokers compress them anew with %s', async (codec) => {
    const url = testKafka()?.url ?? ''
    const admin = kafkaClientOf(url).admin()
    await admin.connect()
    const configEntries = [{ name: 'compression.type', value: codec }]
    await createTopic(admin, { topic: topicOf(url), numPartitions: 2, configEntries })
    await admin.disconnect()
    const log = await open(url, silentLogger, {})
    await log.publish([block(0, 'small'), block(0, 'large', {}, 100_000)], { timeoutMs })
    const reader = collect(log, 'group')
    await waitUntil(() => reader.batches.flatMap(({ blocks }) => blocks).length === 2, 'both blocks')
    const blocks = reader.batches.flatMap(({ blocks: each }) => each)
    expect(blocks.map(({ headers, payload }) => [headers.v, payload.length])).toEqual([
      [1, 6],
      [1, 100_000],
    ])
  })

  test('are read when another program has compressed them with a codec that kafkajs does not know', async () => {
    const url = await createKafkaLog()
    const producer = kafkaClientOf(url).producer()
    await producer.connect()
    const originalSnappy = kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy]
    kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy] = () => ({ compress: snappyOf })
    const messages = [{ partition: 0, value: 'foreign' }]
    await producer.send({ topic: topicOf(url), compression: kafkajs.CompressionTypes.Snappy, messages })
    await producer.disconnect()
    kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy] = () => {
      throw new Error('a record came with the codec of its producer')
    }
    const log = await open(url, silentLogger, {})
    await log.publish([block(0, 'ours')], { timeoutMs })

    const reader = collect(log, 'group')
    const hasBoth = () => reader.batches.flatMap(({ blocks }) => blocks).length === 2
    await waitUntil(hasBoth, 'both records', 30_000).finally(() => {
      kafkajs.CompressionCodecs[kafkajs.CompressionTypes.Snappy] = originalSnappy
    })
    expect(reader.batches.flatMap(({ blocks }) => blocks).map(({ payload }) => payload.toString())).toEqual([
      'foreign',
      'ours\n',
    ])
  })

  test('are skipped and logged when Kafka deleted them before they were read', async () => {
    const url = await createKafkaLog()
    const { lines, logger } = listen()
    // With a session as long as in production: a member that loses it has no position from which blocks could be
    // missing.
    const log = await open(url, logger, {})
    const names = Array.from({ length: 40 }, (_, index) => String(index))
    const publish = async (each: string) => log.publish([block(0, each, {}, 100_000)], { timeoutMs })
    for (const each of names.slice(0, 20)) await publish(each)
    const release = Promise.withResolvers<undefined>()
    const reader = collect(log, 'group', { batchBytesMax: 100_000, batchRowsMax: 1 }, () => release.promise)
    await waitUntil(() => reader.names.length === 1, 'a batch')
    for (const each of names.slice(20)) await publish(each)

    const admin = kafkaClientOf(url).admin()
    await admin.connect()
    await admin.fetchTopicOffsets(topicOf(url)) // else kafkajs does not know the leaders
    await admin.deleteTopicRecords({ topic: topicOf(url), partitions: [{ partition: 0, offset: '30' }] })
    release.resolve(undefined)
    await waitUntil(() => reader.committed.includes('39'), 'the last block')
    expect(reader.names.filter((each) => Number(each) >= 30)).toEqual(names.slice(30))
    expect(lines.join('\n')).toContain('retention')

    await admin.deleteTopicRecords({ topic: topicOf(url), partitions: [{ partition: 0, offset: '40' }] })
    await admin.disconnect()
    const late = collect(log, 'late')
    await publish('next')
    await waitUntil(() => late.committed.includes('next'), 'the next block')
    expect(late.names).toEqual(['next'])
  })
})

describeWithKafka('secrets of a Kafka URL', () => {
  test('stay out of logs and errors', async () => {
    const { lines, logger } = listen()
    const url = await createKafkaLog()
    const secret = url.replace('kafka://', 'kafka://user:hush-hush@') + '?sasl=plain'
    const log = await open(secret, logger)
    const reader = collect(log, 'group')
    const refusal = await log.publish([block(0, 'a')], { timeoutMs: 1000 }).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'unavailable' })
    await waitUntil(() => lines.length > 3, 'kafkajs to complain')
    const migration = await ensureTopics(secret, { logger }).catch((error: unknown) => error)
    expect(migration).toBeInstanceOf(Error)
    await reader.consumer.stop()
    const texts = [...lines, ...[refusal, migration].map((error) => (error instanceof Error ? error.stack : ''))]
    expect(texts.join('\n')).not.toContain('hush')
    expect(JSON.stringify([refusal, migration])).not.toContain('hush')
  })
})

describeWithKafka('a frozen member of a Kafka group', () => {
  test('loses its claims to another member and commits nothing after it wakes', async () => {
    const url = await createKafkaLog()
    const log = await open(url)
    await log.publish([block(0, 'a'), block(1, 'b')], { timeoutMs })
    const program = fileURLToPath(new URL('../conformance/killed-process.ts', import.meta.url))
    const frozen = fork(program, [url, 'hold', 'group', JSON.stringify(options)], { execArgv: [] })
    const exited = once(frozen, 'exit')
    try {
      const reports: Record<string, string>[] = []
      frozen.on('message', (report: Record<string, string>) => reports.push(report))
      const reported = (key: string) => reports.flatMap((report) => report[key] ?? [])
      await waitUntil(() => reported('taken').length >= 2, 'its batches')
      frozen.kill('SIGSTOP')

      const other = collect(log, 'group')
      await waitUntil(() => other.committed.length >= 2, 'the other to take over')
      // The message is handled when the process wakes, before anything from the network.
      frozen.send('commit')
      frozen.kill('SIGCONT')
      await waitUntil(() => reported('refused').length >= 2, 'its commits to be refused')
      expect(reported('committed')).toEqual([])
      await log.publish([block(0, 'c'), block(1, 'd')], { timeoutMs })
      // Reads the group's committed offsets, because Kafka may have stored a commit that was refused to a member which
      // was losing its claims.
      const isCommitted = async () => (await log.committedOffsets('group')).every(({ offset }) => offset === 2n)
      await waitUntil(isCommitted, 'the blocks after it are committed')
    } finally {
      frozen.kill('SIGKILL')
      await exited
    }
  })
})

describeWithKafka('a Kafka broker', () => {
  let dir: string
  let kafka: LocalKafka
  /** All connections pass it. */
  let proxy: TcpProxy
  let url: string

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sluice-kafka-'))
    ;({ kafka, proxy } = await startKafkaBehindProxy(dir))
    url = `${proxy.url}/test.faults`
    await ensureTopics(url, { partitions: 2 })
  })

  afterAll(async () => {
    await kafka.stop()
    await proxy.close()
    await rm(dir, { recursive: true })
  })

  /** Publishes names until `over` resolves; returns the acknowledged names and the durations of refusals. */
  const publishUntil = (log: EventLog, prefix: string, over: AbortSignal, deadlineMs: number) => {
    const acknowledged: string[] = []
    const refusedAfterMs: number[] = []
    const done = (async () => {
      for (let number = 0; !over.aborted; number++) {
        const elapsedMs = startStopwatch()
        const name = `${prefix}${number}`
        try {
          await log.publish([block(number % 2, name)], { timeoutMs: deadlineMs })
          elapsedMs()
          acknowledged.push(name)
        } catch (error) {
          expect(error).toMatchObject({ code: 'unavailable', retryable: true })
          refusedAfterMs.push(elapsedMs())
          // A refusal may come at once; without this pause the loop would never leave the event loop free.
          await new Promise((resolve) => setImmediate(resolve))
        }
      }
    })()
    return { acknowledged, refusedAfterMs, done }
  }

  describe('without any group so far', () => {
    test('reports the committed offsets of a new group once it has created the topic for them', async () => {
      const log = await open(url)
      expect(await log.committedOffsets('first')).toMatchObject([{ offset: 0n }, { offset: 0n }])
    })

    test('may take longer than the timeout of a request, when a log connects and when it is connected', async () => {
      const [connects, isConnected, other] = [await open(url), await open(url), await open(url)]
      await isConnected.committedOffsets('before')
      kafka.pause()
      const [late, later] = [connects.committedOffsets('second'), isConnected.committedOffsets('second')]
      for (const offsets of [late, later]) offsets.catch(() => undefined)
      try {
        for (let n = 0; n < 2; n++) await expect(other.check()).rejects.toMatchObject({ code: 'unavailable' })
      } finally {
        kafka.resume()
      }
      expect(await late).toMatchObject([{ offset: 0n }, { offset: 0n }])
      expect(await later).toMatchObject([{ offset: 0n }, { offset: 0n }])
    })
  })

  test('is asked again for its id, partitions and end offsets when it does not answer in time', async () => {
    // Each question has a log of its own, whose connection has no other.
    const [ofId, ofPartitions, ofEnds, other] = [await open(url), await open(url), await open(url), await open(url)]
    const answers = () =>
      Promise.all([ofId, ofPartitions, ofEnds, other].map((log) => log.check())).then(
        () => true,
        () => false,
      )
    await waitUntil(answers, 'all are connected')
    kafka.pause()
    const [id, partitions, ends] = [ofId.id(), ofPartitions.partitions(), ofEnds.endOffsets()]
    for (const answer of [id, partitions, ends]) answer.catch(() => undefined)
    try {
      // Longer than a request may take: each of these takes as long.
      for (let n = 0; n < 2; n++) await expect(other.check()).rejects.toMatchObject({ code: 'unavailable' })
    } finally {
      kafka.resume()
    }
    await expect(id).resolves.toEqual(expect.any(String))
    await expect(partitions).resolves.toBe(2)
    await expect(ends).resolves.toHaveLength(2)
  })

  test('keeps the committed offset when it wrongly reports an offset as out of range', async () => {
    const single = `${proxy.url}/test.single`
    await ensureTopics(single, { partitions: 1 })
    const log = await open(single)
    const reader = collect(log, 'misled')
    await log.publish([block(0, 'a committed block')], { timeoutMs })
    await waitUntil(() => reader.committed.includes('a committed block'), 'the commit')
    const committed = async () => (await readGroupState(single, 'misled')).partitions.get(0)?.committed
    const before = await committed()
    const { topic } = parseKafkaUrl(single)
    let isReported = false
    let isFetchedAgain = false
    proxy.alterOnce((chunk) => {
      // A fetch response: the topic, the number of partitions, the number of the partition and its error code.
      const at = chunk.indexOf(Buffer.concat([Buffer.from(topic), Buffer.from([0, 0, 0, 1, 0, 0, 0, 0, 0, 0])]))
      if (at !== -1 && !isReported) {
        chunk.writeInt16BE(offsetOutOfRange, at + topic.length + 8)
        isReported = true
      }
      isFetchedAgain = chunk.includes('a committed block')
      return isFetchedAgain
    })
    await waitUntil(() => isFetchedAgain, 'kafkajs to read from the oldest block')
    await waitUntil(async () => (await committed()) === before, 'the committed offset')
    await log.publish([block(0, 'next')], { timeoutMs })
    await waitUntil(() => reader.committed.includes('next'), 'the next block')
    expect(reader.names.filter((name) => name === 'a committed block')).toHaveLength(1)
  })

  describe('whose connections break in the middle of a response', () => {
    test('is connected again, and loses no acknowledged block', async () => {
      const log = await open(url)
      const reader = collect(log, 'broken')
      const over = new AbortController()
      loops.push(over)
      const { acknowledged, done } = publishUntil(log, 'broken', over.signal, 500)
      for (const bytes of [1, 4, 7, 20]) {
        const before = acknowledged.length
        await waitUntil(() => acknowledged.length > before + 5, 'acknowledged blocks')
        proxy.endWithin(bytes)
      }
      const before = acknowledged.length
      await waitUntil(() => acknowledged.length > before + 5, 'blocks to be taken again')
      over.abort()
      await done
      await waitUntil(() => acknowledged.every((name) => reader.worked.includes(name)), 'every acknowledged block')
    })
  })

  describe('when it is killed and restarted', () => {
    test('causes 503 within the deadline and loses no acknowledged block', async () => {
      const log = await open(url)
      const reader = collect(log, 'killed')
      const over = new AbortController()
      loops.push(over)
      const { acknowledged, refusedAfterMs, done } = publishUntil(log, 'killed', over.signal, 500)
      await waitUntil(() => acknowledged.length > 20, 'acknowledged blocks')
      await kafka.kill()
      await waitUntil(() => refusedAfterMs.length >= 2, 'refusals')
      await expect(log.check()).rejects.toMatchObject({ code: 'unavailable' })

      // Opened while it is unavailable.
      const early = await open(url)
      const earlyReader = collect(early, 'early')
      await expect(early.publish([block(0, 'early')], { timeoutMs: 100 })).rejects.toMatchObject({
        code: 'unavailable',
      })
      await expect(early.id()).rejects.toMatchObject({ code: 'unavailable' })

      const before = acknowledged.length
      await kafka.restart()
      await waitUntil(() => acknowledged.length > before + 20, 'blocks to be taken again')
      over.abort()
      await done
      expect(Math.max(...refusedAfterMs)).toBeLessThan(1500)
      await waitUntil(() => acknowledged.every((name) => reader.worked.includes(name)), 'every acknowledged block')
      const isConnected = () =>
        early.check().then(
          () => true,
          () => false,
        )
      await waitUntil(isConnected, 'the one opened early is connected')
      await early.publish([block(0, 'late')], { timeoutMs })
      await waitUntil(() => earlyReader.committed.includes('late'), 'the one opened early')
      expect(acknowledged.filter((name) => !earlyReader.worked.includes(name))).toEqual([])
    })
  })

  describe('when it is frozen for longer than the session', () => {
    test('causes 503 within the deadline and ends the claims, which begin again when it wakes', async () => {
      const log = await open(url)
      const reader = collect(log, 'frozen')
      const held = () => reader.held().length === 2
      const over = new AbortController()
      loops.push(over)
      const { acknowledged, refusedAfterMs, done } = publishUntil(log, 'frozen', over.signal, 500)
      await waitUntil(() => held() && acknowledged.length > 20, 'claims and blocks')
      kafka.pause()
      try {
        await waitUntil(() => reader.claims.every(({ lost }) => lost.aborted), 'the claims to be lost')
        await waitUntil(() => refusedAfterMs.length >= 2, 'refusals')
      } finally {
        kafka.resume()
      }
      const before = acknowledged.length
      await waitUntil(() => held() && acknowledged.length > before + 20, 'claims and blocks again')
      over.abort()
      await done
      expect(Math.max(...refusedAfterMs)).toBeLessThan(1500)
      await waitUntil(() => acknowledged.every((name) => reader.worked.includes(name)), 'every acknowledged block')
    })
  })
})
