import { openClickHouse } from '@sluice/clickhouse/client'
import { isAlive, waitUntil } from '@sluice/engines/processes'
import { setTimeout as lasting } from 'node:timers/promises'
import type { PassingInsert } from '../harness/clickhouse-proxy.ts'
import type { Place, Rig } from './rig.ts'
import type { Fault, FaultKind } from './schedule.ts'

/** Does a fault; resolves when it is over and what it hit works again. */
export async function doFault(rig: Rig, { kind, target }: Pick<Fault, 'kind' | 'target'>): Promise<void> {
  await faults[kind](rig, target)
}

const backTimeoutMs = 60_000
/** A group that lost a member takes up to its session's 10 s until somebody inserts again, and its rebalance another 15. */
const insertTimeoutMs = 90_000
/** Writers tell the group every second that they live; it forgets them after 10 s. */
const frozenMs = 13_000
const stalledMs = 4_000
const slowMs = 4_000
/** Between its look at what is stored and its end, so that another insert fits in between. */
const slowInsertSeconds = 2

const faults: Record<FaultKind, (rig: Rig, target: 0 | 1) => Promise<void>> = {
  'kill-gateway': ({ gateways }, target) => killAndStart(gateways[target]),
  'kill-writer': ({ writers }, target) => killAndStart(writers[target]),

  'kill-writer-before-insert': async (rig) => {
    const { writer, insert, goOn } = await holdNextInsert(rig, 'onArrived')
    await writer.kill()
    insert.cut()
    goOn()
    await writer.start()
  },

  'kill-writer-after-insert': async (rig) => {
    const { writer, insert, goOn } = await holdNextInsert(rig, 'onAnswered')
    await writer.kill()
    insert.cut()
    goOn()
    await writer.start()
  },

  'kill-kafka': async ({ kafka }) => {
    await kafka.kill()
    await kafka.restart()
  },

  'kill-clickhouse': ({ clickHouse }) => killEngine(clickHouse, () => clickHouseAnswers(clickHouse.url)),
  'kill-postgres': ({ postgres, query }) => killEngine(postgres, () => isReady(query)),

  'kill-redis': async ({ redis }) => {
    await redis.kill()
    await redis.restart()
  },

  'freeze-writer': async ({ writers }, target) => {
    writers[target].freeze()
    await lasting(frozenMs)
    writers[target].wake()
    await waitUntil(() => isReady(writers[target]), 'the woken writer is ready', backTimeoutMs)
  },

  /**
   * The frozen writer's insert reaches ClickHouse when the partition is another writer's, at the same time as that one's
   * insert of the same events: neither sees what the other stores, and only the query_id keeps one of them out.
   */
  'freeze-writer-inserting': async (rig) => {
    const frozen = await holdNextInsert(rig, 'onArrived')
    frozen.writer.freeze()
    const other = await holdNextInsert(rig, 'onArrived', partitionOf(frozen.insert))
    const slow = setSlow(rig, slowInsertSeconds)
    frozen.goOn()
    await waitUntil(() => hasBegun(rig, frozen.insert), 'the frozen writer’s insert runs', backTimeoutMs)
    other.goOn()
    slow.end()
    frozen.writer.wake()
    await waitUntil(() => isReady(frozen.writer), 'the woken writer is ready', backTimeoutMs)
  },

  'freeze-clickhouse': async ({ clickHouse }) => {
    const { pid } = clickHouse
    process.kill(pid, 'SIGSTOP')
    await lasting(stalledMs)
    process.kill(pid, 'SIGCONT')
  },

  'freeze-redis': async ({ redis }) => {
    redis.pause()
    await lasting(stalledMs)
    redis.resume()
  },

  'slow-clickhouse': async (rig) => {
    const slow = setSlow(rig, slowInsertSeconds)
    await lasting(slowMs)
    slow.end()
  },

  'cut-clients': ({ lines }) =>
    repeatedly(() => {
      for (const line of lines.clients) line.cut()
    }),

  /** Requests come through, their answers do not: clients hang up and repeat what was accepted. */
  'stall-clients': async ({ lines }, target) => {
    lines.clients[target].stall('answers')
    await lasting(stalledMs)
    lines.clients[target].resume()
  },

  'cut-kafka': ({ lines }) =>
    repeatedly(() => {
      lines.kafka.cut()
    }),

  /** What was on its way arrives when its sender has given up on it long ago. */
  'stall-kafka': async ({ lines }) => {
    lines.kafka.stall('everything')
    await lasting(stalledMs)
    lines.kafka.resume()
  },

  'cut-insert-upload': async (rig) => {
    const { insert, goOn } = await holdNextInsert(rig, 'onArrived')
    insert.cut()
    goOn()
  },

  /** ClickHouse goes on with an insert whose writer is gone, and the writer repeats it meanwhile. */
  'cut-insert-running': async (rig) => {
    const slow = setSlow(rig, slowInsertSeconds)
    const { insert, goOn } = await holdNextInsert(rig, 'onArrived')
    goOn()
    await waitUntil(() => hasBegun(rig, insert), 'the insert runs', backTimeoutMs)
    slow.end()
    insert.cut()
  },

  'cut-insert-answer': async (rig) => {
    const { insert, goOn } = await holdNextInsert(rig, 'onAnswered')
    insert.cut()
    goOn()
  },
}

async function killAndStart(place: Place): Promise<void> {
  await place.kill()
  await place.start()
}

/** Embedded engines are started again by whoever keeps them. */
async function killEngine(engine: { pid: number }, answers: () => Promise<boolean>): Promise<void> {
  const { pid } = engine
  process.kill(pid, 'SIGKILL')
  const isBack = async (): Promise<boolean> => engine.pid !== pid && isAlive(engine.pid) && (await answers())
  await waitUntil(isBack, 'the killed engine is back', backTimeoutMs)
}

/** A line that breaks once may break when nothing is on it. */
async function repeatedly(cut: () => void): Promise<void> {
  for (let times = 0; times < 5; times++) {
    cut()
    await lasting(200)
  }
}

interface HeldInsert {
  writer: Place
  insert: PassingInsert
  /** Lets it pass, if it was not cut. */
  goOn: () => void
}

/** Holds the next insert of any writer, or the next of a partition. */
async function holdNextInsert(
  { lines, writers }: Rig,
  point: 'onArrived' | 'onAnswered',
  partition?: number,
): Promise<HeldInsert> {
  const { promise, resolve, reject } = Promise.withResolvers<HeldInsert>()
  const letGo = (): void => {
    for (const line of lines.clickHouse) line.hooks = {}
  }
  for (const [index, line] of lines.clickHouse.entries()) {
    line.hooks = {
      [point]: (insert: PassingInsert) => {
        if (partition !== undefined && partitionOf(insert) !== partition) return Promise.resolve()
        letGo()
        return new Promise<void>((goOn) => {
          resolve({ writer: writers[index === 0 ? 0 : 1], insert, goOn })
        })
      },
    }
  }
  const timer = setTimeout(() => {
    letGo()
    reject(new Error(`no writer inserted anything within ${insertTimeoutMs} ms`))
  }, insertTimeoutMs)
  return promise.finally(() => {
    clearTimeout(timer)
  })
}

/** `writer-<cluster>.chaos.events-<partition>`; what comes after it is none of our business. */
function partitionOf({ queryId }: PassingInsert): number {
  return Number(/\.chaos\.events-(\d+)/.exec(queryId)?.[1])
}

function setSlow({ lines }: Rig, seconds: number): { end: () => void } {
  for (const line of lines.clickHouse) line.slowSeconds = seconds
  return {
    end: () => {
      for (const line of lines.clickHouse) line.slowSeconds = 0
    },
  }
}

/** Runs or is over: the repeat of an insert that was stored has no new row to be slow with. */
async function hasBegun({ clickHouse }: Rig, insert: PassingInsert): Promise<boolean> {
  if (insert.isOver) return true
  const client = openClickHouse(clickHouse.url)
  try {
    const { rows } = await client.query<{ running: number }>(
      'SELECT count() AS running FROM system.processes WHERE query_id = {queryId:String}',
      { queryId: insert.queryId },
    )
    return rows[0]?.running === 1
  } finally {
    await client.close()
  }
}

async function clickHouseAnswers(url: string): Promise<boolean> {
  const client = openClickHouse(url)
  try {
    await client.check()
    return true
  } catch {
    return false
  } finally {
    await client.close()
  }
}

async function isReady({ url }: Place): Promise<boolean> {
  try {
    const response = await fetch(`${url}/readyz`)
    await response.arrayBuffer()
    return response.ok
  } catch {
    return false
  }
}
