import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { setFlagsFromString } from 'node:v8'
import { afterEach, describe, expect, test } from '@jest/globals'
import type { DeadLetter } from '@sluice/contracts/block'
import { block, collect, nameOf, silent, until, type Collector } from './collect.conformance.ts'
import type { Claim, EventLog, LogBatch } from './log.ts'
import { openEventLog, type OpenEventLogOptions } from './open-event-log.ts'

export interface ConformanceSubject {
  /** The URL of a new, empty log with four partitions. */
  createUrl: () => Promise<string>
  /** How the suite opens it, here and in other processes. */
  options: Omit<OpenEventLogOptions, 'logger'>
}

const partitions = 4
const timeoutMs = 10_000

/** What every event log must do: run on each adapter, on a real engine. */
export function describeEventLog(name: string, { createUrl, options }: ConformanceSubject): void {
  const logs: EventLog[] = []
  const victims: ChildProcess[] = []
  const gates: PromiseWithResolvers<undefined>[] = []

  /** What a handler waits for; opened at the latest when the test is over, or closing the log would wait for ever. */
  const createGate = () => {
    const gate = Promise.withResolvers<undefined>()
    gates.push(gate)
    return gate
  }

  const open = async (url: string): Promise<EventLog> => {
    const log = await openEventLog(url, { ...options, logger: silent })
    logs.push(log)
    return log
  }

  const openNew = async () => open(await createUrl())

  /** A process with the log open; its reports are gathered. */
  const startVictim = (url: string, task: string, group = '') => {
    const program = fileURLToPath(new URL('./victim.conformance.ts', import.meta.url))
    const child = fork(program, [url, task, group, JSON.stringify(options)], { execArgv: [] })
    victims.push(child)
    const reports: Record<string, string>[] = []
    child.on('message', (report: Record<string, string>) => reports.push(report))
    const reported = (key: string) => reports.flatMap((report) => report[key] ?? [])
    const kill = async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    return { reported, kill }
  }

  const publishNames = (log: EventLog, partition: number, names: readonly string[]) =>
    log.publish(
      names.map((each) => block(partition, each)),
      { timeoutMs },
    )

  const publishEverywhere = async (log: EventLog, prefix: string) => {
    const names = Array.from({ length: partitions }, (_, partition) => `${prefix}${partition}`)
    await log.publish(
      names.map((each, partition) => block(partition, each)),
      { timeoutMs },
    )
    return names
  }

  const allHeld = (...collectors: Collector[]) =>
    collectors
      .flatMap(({ held }) => held())
      .sort((a, b) => a - b)
      .join() === '0,1,2,3'

  afterEach(async () => {
    for (const gate of gates.splice(0)) gate.resolve(undefined)
    for (const victim of victims.splice(0)) victim.kill('SIGKILL')
    await Promise.all(logs.splice(0).map((log) => log.close()))
  })

  describe(`${name}: publishing`, () => {
    test('names itself and its partitions, the same each time', async () => {
      const url = await createUrl()
      const first = await open(url)
      const id = await first.id()
      expect(id).toMatch(/^[A-Za-z0-9._-]+$/)
      expect(await first.partitions()).toBe(partitions)
      await first.check()
      await first.close()
      expect(await (await open(url)).id()).toBe(id)
      expect(await (await openNew()).id()).not.toBe(id)
    })

    test('what was acknowledged outlives the process that published it', async () => {
      const url = await createUrl()
      const victim = startVictim(url, 'publish')
      await until('acknowledgements', () => victim.reported('acknowledged').length >= 200)
      await victim.kill()
      const acknowledged = victim.reported('acknowledged')

      const reader = collect(await open(url), 'reader')
      await until('every acknowledged block', () => reader.names.length >= acknowledged.length)
      expect(reader.names).toEqual(expect.arrayContaining(acknowledged))
    })

    test('blocks of a partition keep the order of calls that waited for each other', async () => {
      const log = await openNew()
      const names = Array.from({ length: 60 }, (_, index) => String(index))
      for (let index = 0; index < names.length; index += 3) {
        await log.publish(
          names.slice(index, index + 3).flatMap((each) => [block(1, each), block(2, each)]),
          { timeoutMs },
        )
      }
      const reader = collect(log, 'reader')
      await until('all blocks', () => reader.names.length === 2 * names.length)
      for (const partition of [1, 2]) {
        const read = reader.batches.filter((batch) => batch.partition === partition).flatMap(({ blocks }) => blocks)
        expect(read.map(nameOf)).toEqual(names)
      }
    })

    test('concurrent publishes all arrive', async () => {
      const log = await openNew()
      const names = Array.from({ length: 300 }, (_, index) => String(index))
      await Promise.all(names.map((each, index) => publishNames(log, index % partitions, [each])))
      const reader = collect(log, 'reader')
      await until('all blocks', () => reader.names.length >= names.length)
      expect(reader.names.sort()).toEqual(names.sort())
    })

    test('tells its ends: beyond whatever was acknowledged before', async () => {
      const log = await openNew()
      expect(await log.ends()).toEqual([0n, 0n, 0n, 0n])
      let acknowledged = 0
      const publishers = Array.from({ length: 4 }, async () => {
        for (let round = 0; round < 20; round++) {
          await publishNames(log, 2, ['block'])
          const least = BigInt(++acknowledged)
          expect((await log.ends())[2]).toBeGreaterThanOrEqual(least)
        }
      })
      await Promise.all(publishers)
      expect(await log.ends()).toEqual([0n, 0n, 80n, 0n])
    })

    test('headers and payload come back as they were', async () => {
      const log = await openNew()
      const payload = Buffer.from('{"a":"ü"}\n{"b":1}\n')
      // Part of a larger buffer, as the gateway's payloads may be.
      const slab = Buffer.concat([Buffer.alloc(7, 'x'), payload, Buffer.alloc(9, 'y')])
      const headers = { v: 1, rows: 2, bytes: payload.length } as const
      const special = { ...headers, undated: true } as const
      const before = Date.now()
      const given = slab.subarray(7, 7 + payload.length)
      await log.publish([{ partition: 3, headers, payload: given }], { timeoutMs })
      await log.publish([{ partition: 3, headers: special, payload: given }], { timeoutMs })
      expect(given.equals(payload)).toBe(true)

      const reader = collect(log, 'reader')
      await until('both blocks', () => reader.names.length === 2)
      const blocks = reader.batches.flatMap((batch) => batch.blocks)
      expect(blocks.map((each) => ({ ...each, payload: each.payload.toString() }))).toEqual([
        { partition: 3, headers, payload: payload.toString() },
        { partition: 3, headers: special, payload: payload.toString() },
      ])
      expect(reader.batches.flatMap(({ offsets }) => offsets)).toEqual([0n, 1n])
      for (const batch of reader.batches) {
        expect(batch.rows).toBe(2 * batch.blocks.length)
        expect(batch.bytes).toBe(payload.length * batch.blocks.length)
        expect(batch.oldestAppendedAt).toBeGreaterThanOrEqual(before - 1000)
        expect(batch.oldestAppendedAt).toBeLessThanOrEqual(Date.now() + 1000)
      }
    })

    test('a dead letter comes back as it was', async () => {
      const log = await openNew()
      const payload = Buffer.from([0xff, 0x7b, 0x00, 0x0a])
      const letter: DeadLetter = {
        reason: 'refused',
        code: 27,
        text: 'can’t “parse”\n',
        at: 1,
        partition: 2,
        offset: '90071992547409931',
      }
      const headers = { v: 1, rows: 1, bytes: payload.length, undated: true, letter } as const
      await log.publish([{ partition: 0, headers, payload }], { timeoutMs })
      const reader = collect(log, 'reader')
      await until('the letter', () => reader.names.length === 1)
      expect(reader.batches[0]?.blocks).toEqual([{ partition: 0, headers, payload }])
    })

    test('nothing to publish is nothing to wait for; a partition that does not exist is refused', async () => {
      const log = await openNew()
      await log.publish([], { timeoutMs })
      await expect(publishNames(log, partitions, ['nowhere'])).rejects.toThrow(RangeError)
    })

    test('a closed log answers 503', async () => {
      const log = await openNew()
      await log.close()
      await expect(publishNames(log, 0, ['late'])).rejects.toMatchObject({ status: 503, retryable: true })
      await expect(log.check()).rejects.toMatchObject({ status: 503 })
    })
  })

  describe(`${name}: groups`, () => {
    test('a group goes on where it stopped, whatever another has read', async () => {
      const log = await openNew()
      const first = await publishEverywhere(log, 'first')
      const reading = createGate()
      const other = collect(log, 'other', {}, () => reading.promise)
      await until('the other group', () => other.names.length === partitions)
      const before = collect(log, 'group')
      await until('the first blocks', () => before.committed.length === partitions)
      await before.consumer.stop()
      await before.running

      const second = await publishEverywhere(log, 'second')
      const after = collect(log, 'group')
      await until('the second blocks', () => after.committed.length >= partitions)
      reading.resolve(undefined)
      await until('all blocks', () => other.committed.length >= 2 * partitions)
      expect(after.names.sort()).toEqual(second)
      expect(other.names.sort()).toEqual([...first, ...second].sort())
    })

    test('tells where a group stands, before it joined, while it reads, and after', async () => {
      const log = await openNew()
      const standing = async () =>
        (await log.positions('group')).map(({ partition, next, end }) => `${partition}: ${next}/${end}`).sort()
      expect(await standing()).toEqual(['0: 0/0', '1: 0/0', '2: 0/0', '3: 0/0'])
      await publishNames(log, 1, ['a', 'b'])
      await publishNames(log, 3, ['c'])
      expect(await standing()).toEqual(['0: 0/0', '1: 0/2', '2: 0/0', '3: 0/1'])
      const reader = collect(log, 'group', { maxBatchRows: 1 })
      await until('all blocks', () => reader.committed.length === 3)
      expect(await standing()).toEqual(['0: 0/0', '1: 2/2', '2: 0/0', '3: 1/1'])
      await publishNames(log, 0, ['d'])
      await until('the next block', () => reader.committed.length === 4)
      await reader.consumer.stop()
      await publishNames(log, 0, ['e'])
      expect(await standing()).toEqual(['0: 1/2', '1: 2/2', '2: 0/0', '3: 1/1'])
    })

    test('groups of the same name in two logs have nothing to do with each other', async () => {
      const readers = await Promise.all([openNew(), openNew()].map(async (log) => collect(await log, 'group')))
      await until('all partitions of both', () => readers.every((reader) => allHeld(reader)))
    })

    test('what was handed over and not committed is handed over again', async () => {
      const log = await openNew()
      await publishNames(log, 0, ['a', 'b', 'c'])
      const seen: string[] = []
      const before = log.consumer({
        group: 'group',
        maxBatchBytes: 1024,
        maxBatchRows: 1,
        lingerMs: 0,
        async onClaim(claim) {
          for await (const batch of claim.batches()) {
            seen.push(...batch.blocks.map(nameOf))
            if (seen.length === 1) await claim.commit(batch)
          }
        },
      })
      const running = before.run()
      await until('all blocks', () => seen.length === 3)
      await before.stop()
      await running

      const after = collect(log, 'group')
      await until('the uncommitted blocks', () => after.committed.length >= 2)
      expect(after.names).toEqual(['b', 'c'])
    })

    test('a group goes on at its committed position after its member was killed', async () => {
      const url = await createUrl()
      const log = await open(url)
      for (const prefix of ['first', 'second', 'third', 'fourth']) await publishEverywhere(log, prefix)
      await log.close()
      const victim = startVictim(url, 'consume', 'group')
      await until('two commits of each partition', () => victim.reported('abandoned').length === partitions)
      await victim.kill()
      expect(victim.reported('committed')).toHaveLength(2 * partitions)

      const after = collect(await open(url), 'group')
      await until('the uncommitted blocks', () => after.committed.length >= 2 * partitions)
      expect(after.names.sort()).toEqual(
        ['third', 'fourth'].flatMap((prefix) => [0, 1, 2, 3].map((each) => `${prefix}${each}`)).sort(),
      )
    })

    test('a second member gets a share, loses nothing, and gives it back when it stops', async () => {
      const log = await openNew()
      const sent: string[] = []
      const enough = new AbortController()
      const publisher = (async () => {
        for (let round = 0; !enough.signal.aborted; round++) sent.push(...(await publishEverywhere(log, `${round}-`)))
      })()
      const first = collect(log, 'group')
      await until('all partitions and some blocks', () => allHeld(first) && first.committed.length > 40)

      const second = collect(log, 'group')
      await until('shares', () => second.held().length > 0 && allHeld(first, second))
      expect(first.held().length).toBe(2)
      const shared = second.committed.length
      await until('blocks for the second', () => second.committed.length > shared + 20)

      await second.consumer.stop()
      await second.running
      await until('all partitions back', () => first.held().length === partitions)
      enough.abort()
      await publisher
      await until('every block', () => new Set([...first.worked, ...second.worked]).size === sent.length)
      await first.consumer.stop()
      await first.running

      const after = collect(log, 'group')
      const [last = ''] = await publishEverywhere(log, 'last')
      await until('the last blocks', () => after.names.includes(last))
      expect(after.names.filter((each) => !each.startsWith('last'))).toEqual([])
    })

    test('a lost claim ends, says so, and commits nothing more; its handler does not end the member', async () => {
      const log = await openNew()
      await publishEverywhere(log, 'block')
      const held = new Map<Claim, LogBatch>()
      const release = createGate()
      const refusals: unknown[] = []
      const first = collect(log, 'group', {}, async (batch, claim) => {
        held.set(claim, batch)
        await release.promise
        if (claim.lost.aborted) refusals.push(await claim.commit(batch).catch((error: unknown) => error))
      })
      await until('a batch of each', () => held.size === partitions)
      const second = collect(log, 'group')
      await until('a lost claim', () => first.claims.some(({ lost }) => lost.aborted))
      await until('the second to work', () => second.committed.length > 0)
      const lost = first.claims.filter((claim) => claim.lost.aborted)
      release.resolve(undefined)
      await until('refusals', () => refusals.length >= lost.length)
      for (const refusal of refusals) expect(refusal).toBeInstanceOf(Error)
      await until('every block', () => new Set([...first.worked, ...second.worked]).size === partitions)

      await second.consumer.stop()
      await until('all partitions back', () => first.held().length === partitions)
      const [next = ''] = await publishEverywhere(log, 'next')
      await until('the member to go on', () => first.committed.includes(next))
    })

    test('a member that stops finishes and commits its batch, and takes no other', async () => {
      const log = await openNew()
      await publishNames(log, 2, ['a', 'b'])
      const release = createGate()
      const first = collect(log, 'group', { maxBatchRows: 1 }, () => release.promise)
      await until('the batch', () => first.names.length === 1)
      let stopped = false
      const stopping = first.consumer.stop().then(() => {
        stopped = true
      })
      await publishNames(log, 2, ['c'])
      expect(stopped).toBe(false)
      release.resolve(undefined)
      await stopping
      await first.running
      expect(first.committed).toEqual(['a'])
      await first.consumer.stop()

      const second = collect(log, 'group')
      await until('the others', () => second.committed.length >= 2)
      expect(second.names).toEqual(['b', 'c'])
    })

    test('a member that stops before it has joined leaves nothing behind', async () => {
      const log = await openNew()
      const hasty = collect(log, 'group')
      await hasty.consumer.stop()
      await hasty.running
      const [name = ''] = await publishEverywhere(log, 'block')
      const second = collect(log, 'group')
      await until('all partitions', () => allHeld(second) && second.committed.includes(name))
    })

    test('a handler that fails ends the member after the others have finished', async () => {
      const log = await openNew()
      await publishEverywhere(log, 'block')
      const failure = new Error('cannot write')
      const release = createGate()
      const first = collect(log, 'group', {}, async ({ partition }) => {
        await release.promise
        if (partition === 1) throw failure
      })
      await until('a batch of each', () => first.names.length === partitions)
      release.resolve(undefined)
      await expect(first.running).rejects.toBe(failure)
      expect(first.committed.sort()).toEqual(['block0', 'block2', 'block3'])

      const second = collect(log, 'group')
      await until('the block that failed', () => second.committed.length > 0)
      expect(second.names).toEqual(['block1'])
    })

    test('batches are committed in order', async () => {
      const log = await openNew()
      await publishNames(log, 0, ['a', 'b'])
      const batches: LogBatch[] = []
      const commits = Promise.withResolvers<unknown>()
      const consumer = log.consumer({
        group: 'group',
        maxBatchBytes: 1024,
        maxBatchRows: 1,
        lingerMs: 0,
        async onClaim(claim) {
          for await (const batch of claim.batches()) {
            batches.push(batch)
            if (batches.length === 2) commits.resolve(await claim.commit(batch).catch((error: unknown) => error))
          }
        },
      })
      const running = consumer.run()
      expect(await commits.promise).toBeInstanceOf(Error)
      await consumer.stop()
      await running
    })
  })

  describe(`${name}: batches`, () => {
    test('hold at most so many rows', async () => {
      const log = await openNew()
      await log.publish(
        Array.from({ length: 10 }, (_, index) => block(0, String(index), { rows: 30 })),
        { timeoutMs },
      )
      const reader = collect(log, 'group', { maxBatchRows: 100, lingerMs: 100 })
      await until('all blocks', () => reader.committed.length === 10)
      expect(reader.batches.map(({ rows }) => rows)).toEqual([90, 90, 90, 30])
    })

    test('hold at most so many bytes, unless one block is larger', async () => {
      const log = await openNew()
      const sizes = [400, 400, 400, 3000, 10]
      await log.publish(
        sizes.map((bytes, index) => block(0, String(index), {}, bytes)),
        { timeoutMs },
      )
      const reader = collect(log, 'group', { maxBatchBytes: 1000, lingerMs: 100 })
      await until('all blocks', () => reader.committed.length === sizes.length)
      expect(reader.batches.map(({ bytes }) => bytes)).toEqual([800, 400, 3000, 10])
      expect(reader.names).toEqual(['0', '1', '2', '3', '4'])
    })

    test('are handed over at once when full, else after the linger', async () => {
      const log = await openNew()
      const full = collect(log, 'full', { maxBatchRows: 2, lingerMs: 60_000 })
      const lingering = collect(log, 'lingering', { maxBatchRows: 100, lingerMs: 300 })
      await until('claims', () => allHeld(full) && allHeld(lingering))
      const started = performance.now()
      await publishNames(log, 0, ['a'])
      await publishNames(log, 0, ['b'])
      await until('the full batch', () => full.batches.length === 1)
      expect(lingering.batches).toHaveLength(0)
      await until('the batch that lingered', () => lingering.batches.length === 1)
      expect(performance.now() - started).toBeGreaterThanOrEqual(300)
      expect(lingering.names).toEqual(['a', 'b'])
    })

    test('a handler that does not keep up holds neither memory nor the other partitions', async () => {
      const log = await openNew()
      const mebibyte = 1024 * 1024
      const payload = Buffer.alloc(mebibyte, 'x\n')
      const big = { partition: 0, headers: { v: 1, rows: 1, bytes: mebibyte } as const, payload }
      const release = createGate()
      const reader = collect(log, 'group', { maxBatchBytes: mebibyte }, async ({ partition }) => {
        if (partition === 0) await release.promise
      })
      await until('claims', () => allHeld(reader))
      const before = bufferBytes()
      for (let round = 0; round < 24; round++) await log.publish([big, big, big, big], { timeoutMs })
      // Long enough to read all of it, were it read.
      for (let round = 0; round < 30; round++) {
        await publishNames(log, 1, [String(round)])
        await until('the other partition', () => reader.committed.includes(String(round)))
      }
      expect(bufferBytes() - before).toBeLessThan(48 * mebibyte)
      expect(reader.batches.filter(({ partition }) => partition === 0)).toHaveLength(1)
      release.resolve(undefined)
      await until('the rest', () => reader.committed.length === 96 + 30)
    })

    test('lag counts what is not committed', async () => {
      const log = await openNew()
      const release = createGate()
      const before = Date.now()
      await publishNames(log, 0, ['a', 'b', 'c'])
      const reader = collect(log, 'group', { maxBatchRows: 1 }, () => release.promise)
      const lagOf = (partition: number) => reader.consumer.lag().find((each) => each.partition === partition)
      await until('claims', () => allHeld(reader) && reader.names.length === 1)
      await until('the lag', () => lagOf(0)?.blocks === 3)
      expect(lagOf(0)?.oldestAppendedAt).toBeGreaterThanOrEqual(before - 1000)
      expect(lagOf(0)?.committed).toBe(0n)
      expect(lagOf(1)).toEqual({ partition: 1, committed: 0n, blocks: 0, oldestAppendedAt: undefined })
      release.resolve(undefined)
      await until('no lag', () => lagOf(0)?.blocks === 0)
      expect(lagOf(0)?.committed).toBe(3n)
      await reader.consumer.stop()
      expect(reader.consumer.lag()).toEqual([])
    })
  })
}

/** Bytes of buffers that are still referenced. */
function bufferBytes(): number {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  collectGarbage()
  // Not `arrayBuffers`: it leaves out what came from another thread.
  return process.memoryUsage().external
}
