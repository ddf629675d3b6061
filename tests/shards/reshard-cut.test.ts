import { describe, expect, test } from '@jest/globals'
import { migrate } from '@sluice/admin/migrate/migrate'
import { cancelReshard, copyEvents, finishReshard } from '@sluice/admin/reshard/reshard'
import { shardStore } from '@sluice/postgres/shards'
import { internalMessage } from '@sluice/runtime/errors'
import { events, longMs, useReshard } from './reshard-rig.ts'

const rig = useReshard()

const isCopied = (line: string): boolean => line.includes('are copied')

describe('a reshard that is cut', () => {
  /** Runs a step that is cut after each copy that it makes, until it ends. */
  async function runCutting(step: typeof copyEvents): Promise<number> {
    for (let cuts = 0; ; cuts++) {
      const say = (line: string): void => {
        if (isCopied(line)) throw new Error('cut')
      }
      try {
        await step(rig.engines, { ...rig.options, say })
        return cuts
      } catch (error) {
        if (!internalMessage(error).startsWith('cut')) throw error
      }
    }
  }

  test(
    'goes on after each month, in both steps',
    async () => {
      await rig.fill()
      expect(await runCutting(copyEvents)).toBeGreaterThan(8)
      await rig.fill(events, 1_000)
      expect(await runCutting(finishReshard)).toBeGreaterThan(4)
      await rig.expectShards(2, rig.target, { count: 7_000, users: 100 })
    },
    longMs,
  )

  test(
    'refuses services and migrations of both URLs meanwhile, each with what to do, and then goes on',
    async () => {
      await rig.fill()
      await copyEvents(rig.engines, rig.options)
      expect(await rig.refusal(rig.newUrl())).toMatch(/is being filled by "npm run reshard"/)
      await expect(migrate({ ...rig.engines, clickHouseUrl: rig.newUrl() })).rejects.toMatchObject({
        internal: expect.stringMatching(/Only "npm run reshard" changes the number of shards/) as unknown,
      })
      await rig.fill(events, 1_000)
      const cut = finishReshard(rig.engines, {
        ...rig.options,
        say: () => {
          throw new Error('cut')
        },
      })
      await expect(cut).rejects.toThrow(
        /^cut\nNo service can use ClickHouse now\. Run the command again, or with --cancel/,
      )
      expect(await shardStore(rig.postgres).read()).toBe(1)
      expect(await rig.refusal(rig.newUrl())).toMatch(/is being filled by "npm run reshard"/)
      expect(await rig.refusal(rig.engines.clickHouseUrl)).toMatch(/Run "npm run migrate"/)
      await expect(migrate(rig.engines)).rejects.toMatchObject({
        internal: expect.stringMatching(/were moved by "npm run reshard"/) as unknown,
      })
      await finishReshard(rig.engines, rig.options)
      await rig.expectShards(2, rig.target, { count: 7_000, users: 100 })
    },
    longMs,
  )

  test(
    'ends after a cut before the migration of the new servers, which the migration itself would do as well',
    async () => {
      await rig.fill()
      await copyEvents(rig.engines, rig.options)
      await rig.retire()
      const recorded = await shardStore(rig.postgres).readState()
      await shardStore(rig.postgres).double(recorded ?? { number: 1, doublingSince: null })
      await finishReshard(rig.engines, rig.options)
      await rig.expectShards(2, rig.target)
      expect(await rig.refusal(rig.newUrl())).toBe('')
    },
    longMs,
  )

  test(
    'is given up, before and after the old database was renamed',
    async () => {
      await rig.fill()
      const before = await rig.databases()
      await copyEvents(rig.engines, rig.options)
      await cancelReshard(rig.engines, rig.options)
      expect(await rig.databases()).toStrictEqual(before)
      await copyEvents(rig.engines, rig.options)
      await rig.retire()
      await cancelReshard(rig.engines, rig.options)
      expect(await rig.databases()).toStrictEqual(before)
      expect(await shardStore(rig.postgres).readState()).toStrictEqual({ number: 1, doublingSince: null })
      expect(await rig.refusal(rig.engines.clickHouseUrl)).toBe('')
      expect(await rig.query(rig.engines.clickHouseUrl, 'SELECT count() AS events FROM events')).toStrictEqual([
        { events },
      ])
    },
    longMs,
  )

  test(
    'is given up while a server that joins is unavailable, which is named, and its copy is dropped by a repeat',
    async () => {
      await rig.fill()
      const before = await rig.databases()
      await copyEvents(rig.engines, rig.options)
      await rig.retire()
      await rig.cluster.servers[1]?.kill()
      try {
        await cancelReshard(rig.engines, rig.options)
      } finally {
        await rig.cluster.servers[1]?.start()
      }
      expect(rig.lines.at(-1)).toMatch(
        /^These servers do not answer: http:\/\/127\.0\.0\.2:\d+\. .* drop the database test_/,
      )
      expect(await rig.refusal(rig.engines.clickHouseUrl)).toBe('')
      expect(await shardStore(rig.postgres).readState()).toStrictEqual({ number: 1, doublingSince: null })
      expect(await rig.databases()).toStrictEqual([...before, `${rig.target} on 1`].sort())
      await cancelReshard(rig.engines, rig.options)
      expect(await rig.databases()).toStrictEqual(before)
    },
    longMs,
  )

  test(
    'is ended without the room that is estimated, once the old database is renamed',
    async () => {
      await rig.fill()
      await copyEvents(rig.engines, rig.options)
      await rig.fill(events, 6_000)
      const full = { ...rig.options, spaceFactor: 1e12 }
      await expect(finishReshard(rig.engines, full)).rejects.toMatchObject({
        internal: expect.stringMatching(/Enlarge its disk/) as unknown,
      })
      await rig.retire()
      await finishReshard(rig.engines, full)
      await rig.expectShards(2, rig.target, { count: 12_000, users: 100 })
    },
    longMs,
  )
})
