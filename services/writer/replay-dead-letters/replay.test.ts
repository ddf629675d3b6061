import { spawn } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from '@jest/globals'
import type { Block, DeadLetter } from '@sluice/contracts/block'
import { describeWithKafka, testKafka } from '@sluice/engines/testing'
import { ensureTopics } from '@sluice/event-log/ensure-topics'
import { replayDeadLetters } from './replay.ts'
import {
  blockOfRows,
  createPlace,
  event,
  eventually,
  partitions,
  type Place,
  type RunningWriter,
  runWriter,
  timeoutMs,
} from '../writer.test-support.ts'

const fault: DeadLetter = { reason: 'refused', code: 117, text: 'unknown field', at: 1, partition: 1, offset: '7' }

function letter(row: object, changes: Partial<DeadLetter> = {}): Block {
  const block = blockOfRows(1, [row])
  return { ...block, headers: { ...block.headers, letter: { ...fault, ...changes } } }
}

async function drained(place: Place): Promise<void> {
  const group = `sluice-writer-${await place.log.id()}`
  await eventually('the log is drained', async () =>
    (await place.log.positions(group)).every(({ next, end }) => next === end),
  )
}

let place: Place
let writer: RunningWriter | undefined

afterEach(async () => {
  await writer?.stop()
  writer = undefined
  await place.drop()
})

function describeReplay(name: string, createUrl: () => Promise<string | undefined>): void {
  describe(name, () => {
    test('what was mended is stored once, what was not comes back, and each run ends', async () => {
      place = await createPlace(await createUrl())
      const { deadLetters } = place
      // As a writer leaves them that did not know the rows of a newer gateway yet.
      const mended = Array.from({ length: 50 }, (_, n) => event(`row-${n}`))
      const poison = event('poison', { environment: 'moon' })
      const dead = [...mended.map((row) => letter(row)), letter(poison, { offset: '8', at: 2 })]
      await deadLetters.publish(dead, { timeoutMs })
      writer = runWriter(place)

      expect(await replayDeadLetters(place)).toStrictEqual({ letters: 51, rows: 51, foreign: 0 })
      await drained(place)
      expect(await place.stored()).toStrictEqual(mended.map(({ event_id: id }) => id).sort())
      expect(await place.dead()).toStrictEqual([{ reason: 'refused', row: JSON.stringify(poison) }])

      expect(await replayDeadLetters(place)).toStrictEqual({ letters: 1, rows: 1, foreign: 0 })
      await drained(place)
      expect(await place.dead()).toHaveLength(1)

      // A replay that was killed before its commit is done again.
      await deadLetters.publish(dead.slice(0, 10), { timeoutMs })
      expect(await replayDeadLetters(place)).toStrictEqual({ letters: 11, rows: 11, foreign: 0 })
      await drained(place)
      expect(await place.stored()).toHaveLength(mended.length)
    }, 60_000)

    test('letters go to their partition, byte for byte; foreign records are left out', async () => {
      place = await createPlace(await createUrl())
      const payload = Buffer.from([0xff, 0x00, 0x0a])
      const unreadable: Block = {
        partition: 0,
        headers: { v: 1, rows: 9, bytes: 3, undated: true, letter: { ...fault, partition: 2 } },
        payload,
      }
      await place.deadLetters.publish([unreadable, blockOfRows(0, [event()])], { timeoutMs })
      expect(await replayDeadLetters(place)).toStrictEqual({ letters: 1, rows: 9, foreign: 1 })
      const positions = await place.log.positions('any')
      expect(positions.filter(({ end }) => end > 0n).map(({ partition, end }) => [partition, end])).toStrictEqual([
        [2, 1n],
      ])
      writer = runWriter(place)
      await drained(place)
      expect(await place.dead()).toMatchObject([{ reason: 'row_count' }])
    }, 60_000)
  })
}

describeReplay('from a file', () => Promise.resolve(undefined))
describeWithKafka('kafka', () => {
  describeReplay('from Kafka', async () => {
    const url = testKafka()?.url ?? ''
    await ensureTopics(url, { partitions })
    return url
  })
})

describe('the command', () => {
  async function run(
    environment: Record<string, string>,
    ...parameters: string[]
  ): Promise<{ code: number | null; output: string; errors: string }> {
    const program = fileURLToPath(new URL('main.ts', import.meta.url))
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

  test('lists with reasons and changes nothing, then gives back, then has nothing left', async () => {
    place = await createPlace()
    await place.deadLetters.publish([letter(event('a')), letter(event('b'), { text: 'another' })], { timeoutMs })
    await place.closeLogs()
    const environment = { SLUICE_LOG_URL: place.url }

    for (let time = 0; time < 2; time++) {
      const listed = await run(environment, '--list')
      const lines = listed.output.split('\n').filter((line) => line !== '')
      expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
        { dead: '1/0', ...fault, rows: 1, row: expect.stringContaining('"a"') as unknown },
        { dead: '1/1', ...fault, text: 'another' },
      ])
      expect(listed).toMatchObject({ code: 0, errors: '2 dead letters with 2 rows wait.\n' })
    }
    expect(await run(environment)).toStrictEqual({
      code: 0,
      output: 'Given back to the log: 2 dead letters with 2 rows.\n',
      errors: '',
    })
    expect(await run(environment)).toMatchObject({ output: expect.stringContaining(': 0 dead letters') as unknown })
  })

  test('says in a sentence what it can’t do, and ends with 1', async () => {
    place = await createPlace()
    const empty = await mkdtemp(join(tmpdir(), 'sluice-no-log-'))
    const failures: [Record<string, string>, string[], RegExp][] = [
      [{ SLUICE_DATA_DIR: '/nowhere' }, [], /^There is no event log in \/nowhere\/log\. Set SLUICE_LOG_URL/],
      [{ SLUICE_LOG_URL: `file:${empty}` }, ['--list'], /^There is no event log in /],
      [{ SLUICE_LOG_URL: 'http://x' }, [], /^The configuration has 1 mistake:\n.*SLUICE_LOG_URL/],
      [{ SLUICE_LOG_URL: 'kafka://127.0.0.1:1/topic' }, [], /^Kafka: /],
      [{ SLUICE_LOG_URL: place.url }, [], /in use by another process\. Stop that one/],
      [{ SLUICE_LOG_URL: place.url }, ['--lits'], /^Unknown option '--lits'[^]*npm run replay-dead-letters/],
    ]
    for (const [environment, parameters, sentence] of failures) {
      const { code, output, errors } = await run(environment, ...parameters)
      expect(errors).toMatch(sentence)
      expect(errors).not.toMatch(/^ +at /m)
      expect({ code, output }).toStrictEqual({ code: 1, output: '' })
    }
    expect(await readdir(empty)).toStrictEqual([])
    await rm(empty, { recursive: true })
    await rm('/nowhere', { recursive: true, force: true })
  }, 60_000)
})
