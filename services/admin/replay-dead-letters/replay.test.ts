import { spawn } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Block, DeadLetter } from '@sluice/event-log/block'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import type { Claim, EventLog } from '@sluice/event-log/log'
import { writerGroup } from '@sluice/event-log/writer-group'
import { replayPositionStore } from '@sluice/postgres/replay-positions'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWithKafka, testKafka } from '../../../tests/support/engines/test-engines.ts'
import { openTestPostgres } from '../../../tests/support/test-postgres.ts'
import {
  blockOfRows,
  createTestStores,
  event,
  partitions,
  type RunningWriter,
  runWriter,
  type TestStores,
  timeoutMs,
} from '../../../tests/support/writer.ts'
import { listDeadLetters, replayDeadLetters } from './replay.ts'

const fault: DeadLetter = { reason: 'refused', code: 117, text: 'unknown field', at: 1, partition: 1, offset: '7' }

function letter(row: object, changes: Partial<DeadLetter> = {}): Block {
  const block = blockOfRows(1, [row])
  return { ...block, headers: { ...block.headers, letter: { ...fault, ...changes } } }
}

async function waitUntilDrained(stores: TestStores): Promise<void> {
  const group = writerGroup(await stores.inserter.storeId())
  await waitUntil(
    async () => (await stores.log.committedOffsets(group)).every(({ offset, endOffset }) => offset === endOffset),
    'the log is drained',
  )
}

let stores: TestStores
let writer: RunningWriter | undefined

afterEach(async () => {
  await writer?.stop()
  writer = undefined
  await stores.drop()
})

/** The log of dead letters, whose batch is delivered again after its handler failed, as after a claim that was lost. */
const redelivering = (log: EventLog): EventLog => ({
  ...log,
  consumer: ({ onClaim, ...options }) =>
    log.consumer({
      ...options,
      onClaim: async (claim) => {
        for await (const batch of claim.batches()) {
          const repeated: Claim = {
            partition: claim.partition,
            lost: claim.lost,
            commit: (each) => claim.commit(each),
            batches: async function* () {
              yield await Promise.resolve(batch)
            },
          }
          await onClaim(repeated).catch(() => onClaim(repeated))
        }
      },
    }),
})

function describeReplay(name: string, createUrl: () => Promise<string | undefined>): void {
  describe(name, () => {
    test('rows that can be stored now are stored once, and the others become dead letters again', async () => {
      stores = await createTestStores(await createUrl())
      const { deadLetters } = stores
      // An older writer leaves such dead letters of rows that only a newer one can store.
      const storable = Array.from({ length: 50 }, (_, n) => event(`row-${n}`))
      const unstorable = event('poison', { environment: 'moon' })
      const dead = [...storable.map((row) => letter(row)), letter(unstorable, { offset: '8', at: 2 })]
      await deadLetters.publish(dead, { timeoutMs })
      writer = runWriter(stores)

      expect(await replayDeadLetters(stores)).toStrictEqual({
        letters: 51,
        rows: 51,
        copies: 0,
        expired: 0,
        foreign: 0,
      })
      await waitUntilDrained(stores)
      expect(await stores.stored()).toStrictEqual(storable.map(({ event_id: id }) => id).sort())
      expect(await stores.dead()).toStrictEqual([{ reason: 'refused', row: JSON.stringify(unstorable) }])

      expect(await replayDeadLetters(stores)).toStrictEqual({ letters: 1, rows: 1, copies: 0, expired: 0, foreign: 0 })
      await waitUntilDrained(stores)
      expect(await stores.dead()).toHaveLength(1)

      // A replay that was killed before its commit is repeated.
      await deadLetters.publish(dead.slice(0, 10), { timeoutMs })
      expect(await replayDeadLetters(stores)).toStrictEqual({
        letters: 11,
        rows: 11,
        copies: 0,
        expired: 0,
        foreign: 0,
      })
      await waitUntilDrained(stores)
      expect(await stores.stored()).toHaveLength(storable.length)
    })

    test('letters whose publishing failed are published when they come again', async () => {
      stores = await createTestStores(await createUrl())
      const { log, deadLetters } = stores
      const rows = Array.from({ length: 20 }, (_, n) => event(`row-${n}`))
      await deadLetters.publish(
        rows.map((row) => letter(row)),
        { timeoutMs },
      )
      let failures = 1
      const failing: EventLog = {
        ...log,
        publish: (...parameters) =>
          failures-- > 0 ? Promise.reject(new Error('Kafka is unavailable')) : log.publish(...parameters),
      }
      const replayed = await replayDeadLetters({ log: failing, deadLetters: redelivering(deadLetters) })
      expect(replayed).toStrictEqual({ letters: 20, rows: 20, copies: 0, expired: 0, foreign: 0 })
      writer = runWriter(stores)
      await waitUntilDrained(stores)
      expect(await stores.stored()).toStrictEqual(rows.map(({ event_id: id }) => id).sort())
    })

    test('copies of a letter are replayed once, and listed once', async () => {
      stores = await createTestStores(await createUrl())
      const { deadLetters } = stores
      const poison = event('poison', { environment: 'moon' })
      // A writer was killed before its commit, and a replay before its own: the log has the row twice.
      const copies = [letter(poison), letter(poison), letter(poison, { offset: '9', at: 2 })]
      await deadLetters.publish(copies, { timeoutMs })
      expect(await stores.dead()).toStrictEqual([{ reason: 'refused', row: JSON.stringify(poison) }])
      writer = runWriter(stores)

      expect(await replayDeadLetters(stores)).toStrictEqual({ letters: 1, rows: 1, copies: 2, expired: 0, foreign: 0 })
      await waitUntilDrained(stores)
      const ends = await deadLetters.endOffsets()
      expect(ends.reduce((sum, end) => sum + end, 0n)).toBe(4n)
      expect(await replayDeadLetters(stores)).toStrictEqual({ letters: 1, rows: 1, copies: 0, expired: 0, foreign: 0 })
    })

    test('rows that were received more than 365 days ago are left out, and counted', async () => {
      stores = await createTestStores(await createUrl())
      const received_at = Date.now() - 365 * 86_400_000
      // A writer that gave them up again, after a replay, has noted the later time.
      const old = letter(event('old', { received_at: received_at - 1 }), { at: Date.now() })
      const recent = letter(event('recent', { received_at: received_at + 600_000 }))
      await stores.deadLetters.publish([old, recent], { timeoutMs })
      writer = runWriter(stores)
      expect(await replayDeadLetters(stores)).toStrictEqual({ letters: 1, rows: 1, copies: 0, expired: 1, foreign: 0 })
      await waitUntilDrained(stores)
      expect(await stores.stored()).toStrictEqual(['recent'])
    })

    test('letters are published to their partition byte for byte, and foreign records are left out', async () => {
      stores = await createTestStores(await createUrl())
      const payload = Buffer.from([0xff, 0x00, 0x0a])
      const unreadable: Block = {
        partition: 0,
        headers: { v: 1, rows: 9, bytes: 3, undated: true, letter: { ...fault, partition: 2 } },
        payload,
      }
      await stores.deadLetters.publish([unreadable, blockOfRows(0, [event()])], { timeoutMs })
      expect(await replayDeadLetters(stores)).toStrictEqual({ letters: 1, rows: 9, copies: 0, expired: 0, foreign: 1 })
      const positions = await stores.log.committedOffsets('any')
      expect(
        positions.filter(({ endOffset }) => endOffset > 0n).map(({ partition, endOffset }) => [partition, endOffset]),
      ).toStrictEqual([[2, 1n]])
      writer = runWriter(stores)
      await waitUntilDrained(stores)
      expect(await stores.dead()).toMatchObject([{ reason: 'row_count' }])
    })
  })
}

describeReplay('from a file', () => Promise.resolve(undefined))
describeWithKafka('kafka', () => {
  describeReplay('from Kafka', async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions })
    return url
  })

  test('a letter is replayed once, also when Kafka has forgotten the group', async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions })
    stores = await createTestStores(url)
    const postgres = await openTestPostgres()
    const positions = replayPositionStore(postgres)
    const { deadLetters } = stores
    await deadLetters.publish([letter(event('a')), letter(event('b'))], { timeoutMs })
    expect(await replayDeadLetters({ ...stores, positions })).toMatchObject({ letters: 2 })

    // Kafka forgets the group a week after the last replay: it is as if the group were new.
    const renamed = (group: string) => `${group}-after-a-week`
    const forgetful: EventLog = {
      ...deadLetters,
      committedOffsets: (group) => deadLetters.committedOffsets(renamed(group)),
      consumer: (options) => deadLetters.consumer({ ...options, group: renamed(options.group) }),
    }
    await deadLetters.publish([letter(event('c'))], { timeoutMs })
    const listed: string[] = []
    await listDeadLetters({ deadLetters: forgetful, positions }, ({ payload }) => listed.push(payload.toString()))
    expect(listed).toStrictEqual([`${JSON.stringify(event('c'))}\n`])
    const logs = { log: stores.log, deadLetters: forgetful, positions }
    expect(await replayDeadLetters(logs)).toMatchObject({ letters: 1, rows: 1 })
    expect(await replayDeadLetters(logs)).toMatchObject({ letters: 0 })
    await postgres.drop()
  })
})

describe('the command', () => {
  const program = fileURLToPath(new URL('main.ts', import.meta.url))

  async function run(
    environment: Record<string, string>,
    ...parameters: string[]
  ): Promise<{ code: number | null; output: string; errors: string }> {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, ...parameters], {
      env: environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    let errors = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    return { code, output, errors }
  }

  test('lists letters with their reasons without a change, and leaves none after a replay', async () => {
    stores = await createTestStores()
    await stores.deadLetters.publish([letter(event('a')), letter(event('b'), { text: 'another' })], { timeoutMs })
    await stores.closeLogs()
    const environment = { SLUICE_LOG_URL: stores.url }

    for (let time = 0; time < 2; time++) {
      const listed = await run(environment, '--list')
      const lines = listed.output.split('\n').filter((line) => line !== '')
      expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
        { dead: '1/0', ...fault, rows: 1, row: expect.stringContaining('"a"') as unknown },
        { dead: '1/1', ...fault, text: 'another' },
      ])
      expect(listed).toMatchObject({ code: 0, errors: '2 dead letters with 2 rows are waiting.\n' })
    }
    expect(await run(environment)).toStrictEqual({
      code: 0,
      output: 'Replayed to the log: 2 dead letters with 2 rows.\n',
      errors: '',
    })
    expect(await run(environment)).toMatchObject({ output: expect.stringContaining(': 0 dead letters') as unknown })
  })

  test.each([
    ['on a full disk', '>/dev/full', 1, "Standard output can't be written: ENOSPC: no space left on device, write\n"],
    ['without a reader', '3> >(exec true) >&3; wait $!', 141, ''],
  ])('ends with another code than 0 when its list is lost %s', async (_where, redirection, code, errors) => {
    stores = await createTestStores()
    await stores.deadLetters.publish([letter(event('a'))], { timeoutMs })
    await stores.closeLogs()
    const command = `exec ${redirection}; exec "${process.execPath}" --disable-warning=ExperimentalWarning "${program}" --list`
    const child = spawn('bash', ['-c', command], {
      env: { SLUICE_LOG_URL: stores.url },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const closed = new Promise<number | null>((resolve) => child.once('close', resolve))
    const written = (await child.stderr.setEncoding('utf8').toArray()).join('')
    expect([await closed, written]).toEqual([code, errors])
  })

  test('prints one sentence for each failure and ends with 1', async () => {
    stores = await createTestStores()
    const postgres = await openTestPostgres()
    const empty = await mkdtemp(join(tmpdir(), 'sluice-no-log-'))
    const failures: [Record<string, string>, string[], RegExp][] = [
      [{ SLUICE_DATA_DIR: '/nowhere' }, [], /^There is no event log in \/nowhere\/log\. Set SLUICE_LOG_URL/],
      [{ SLUICE_LOG_URL: `file:${empty}` }, ['--list'], /^There is no event log in /],
      [{ SLUICE_LOG_URL: 'http://x' }, [], /^The configuration has 1 mistake:\n.*SLUICE_LOG_URL/],
      [
        { SLUICE_LOG_URL: 'kafka://127.0.0.1:1/topic' },
        [],
        /^SLUICE_POSTGRES_URL of a Postgres server is required with Kafka: /,
      ],
      [{ SLUICE_LOG_URL: 'kafka://127.0.0.1:1/topic', SLUICE_POSTGRES_URL: postgres.url }, [], /^Kafka: /],
      [{ SLUICE_LOG_URL: stores.url }, [], /in use by another process\. Stop that one/],
      [{ SLUICE_LOG_URL: stores.url }, ['--lits'], /^Unknown option '--lits'[^]*npm run replay-dead-letters/],
    ]
    for (const [environment, parameters, sentence] of failures) {
      const { code, output, errors } = await run(environment, ...parameters)
      expect(errors).toMatch(sentence)
      expect(errors).not.toMatch(/^ +at /m)
      expect({ code, output }).toStrictEqual({ code: 1, output: '' })
    }
    await postgres.drop()
    expect(await readdir(empty)).toStrictEqual([])
    await rm(empty, { recursive: true })
    await rm('/nowhere', { recursive: true, force: true })
  })
})
