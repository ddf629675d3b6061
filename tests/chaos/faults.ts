import { setTimeout as sleep } from 'node:timers/promises'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { PassingInsert } from '../support/clickhouse-proxy.ts'
import { sendMarkers } from './drain.ts'
import type { Rig, RigServer } from './rig.ts'
import { backTimeoutMs, killEngine, type RestartableService } from './rig-parts.ts'
import type { Fault, FaultKind } from './schedule.ts'

/** Causes a fault; resolves when it is over and the process or connection that it hit works again. */
export async function doFault(rig: Rig, { kind, target }: Pick<Fault, 'kind' | 'target'>): Promise<void> {
  await faults[kind](rig, target)
}

/**
 * A group that lost a member inserts again after its session's 10 s and a rebalance of up to 15 s; later on a busy
 * machine.
 */
const insertTimeoutMs = 300_000
/** Writers send a heartbeat every second; the group removes a member that sent none for 10 s. */
const frozenMs = 13_000
const stalledMs = 4_000
const slowMs = 4_000
/** Delay of an insert between its look-back and its end, so that another insert can run in between. */
const slowInsertSeconds = 2

const faults: Record<FaultKind, (rig: Rig, target: 0 | 1) => Promise<void>> = {
  'kill-gateway': ({ gateways }, target) => restartService(gateways[target]),
  'kill-writer': ({ writers }, target) => restartService(writers[target]),

  'kill-writer-before-insert': async (rig) => {
    const { writer, insert, resume } = await holdNextInsert(rig, 'onArrived')
    await writer.kill()
    insert.cut()
    resume()
    await writer.start()
  },

  'kill-writer-after-insert': async (rig) => {
    const { writer, insert, resume } = await holdNextInsert(rig, 'onAnswered')
    await writer.kill()
    insert.cut()
    resume()
    await writer.start()
  },

  'kill-kafka': async ({ kafka }) => {
    await kafka.kill()
    await kafka.restart()
  },

  'kill-clickhouse': (rig, target) => serverOf(rig, target).killAndStart(),
  'kill-postgres': ({ postgres, query }) => killEngine(postgres, () => isReady(query)),

  'kill-redis': async ({ redis }) => {
    await redis.kill()
    await redis.restart()
  },

  'freeze-writer': async ({ writers }, target) => {
    writers[target].freeze()
    await sleep(frozenMs)
    writers[target].wake()
    await waitUntil(() => isReady(writers[target]), 'the woken writer is ready', backTimeoutMs)
  },

  /**
   * The insert of the frozen writer reaches ClickHouse when another writer owns the partition, at the same time as that
   * writer's insert of the same events: neither look-back finds the rows of the other, and only the query_id excludes
   * one.
   */
  'freeze-writer-inserting': async (rig) => {
    const frozen = await holdNextInsert(rig, 'onArrived')
    frozen.writer.freeze()
    const other = await holdNextInsert(rig, 'onArrived', lockOf(frozen.insert))
    const slow = setSlow(rig, slowInsertSeconds)
    frozen.resume()
    await waitUntil(() => hasBegun(frozen.insert), 'the frozen writer’s insert runs', backTimeoutMs)
    other.resume()
    slow.end()
    frozen.writer.wake()
    await waitUntil(() => isReady(frozen.writer), 'the woken writer is ready', backTimeoutMs)
  },

  /**
   * Inserts of both lanes with copies of the same events reach ClickHouse at the same time: neither look-back finds the
   * rows of the other, and only the query_id that both lanes share excludes one.
   */
  'meet-across-lanes': async (rig) => {
    const first = await holdNextInsert(rig, 'onArrived')
    // The lane of the held insert inserts nothing else into this partition, so the next insert is one of the other
    // lane.
    const meeting = holdNextInsert(rig, 'onArrived', lockOf(first.insert))
    await sendMarkers(rig)
    const second = await meeting
    const slow = setSlow(rig, slowInsertSeconds)
    first.resume()
    await waitUntil(() => hasBegun(first.insert), 'the first insert runs', backTimeoutMs)
    second.resume()
    await waitUntil(() => first.insert.isOver && second.insert.isOver, 'both inserts were answered', backTimeoutMs)
    slow.end()
  },

  'freeze-clickhouse': async (rig, target) => {
    const pid = serverOf(rig, target).pid()
    process.kill(pid, 'SIGSTOP')
    await sleep(stalledMs)
    process.kill(pid, 'SIGCONT')
  },

  'freeze-redis': async ({ redis }) => {
    redis.pause()
    await sleep(stalledMs)
    redis.resume()
  },

  'slow-clickhouse': async (rig) => {
    const slow = setSlow(rig, slowInsertSeconds)
    await sleep(slowMs)
    slow.end()
  },

  'cut-clients': ({ proxies }) =>
    repeatedly(() => {
      for (const proxy of proxies.clients) proxy.reset()
    }),

  /** Requests arrive but their responses do not: clients disconnect and repeat requests that were accepted. */
  'stall-clients': async ({ proxies }, target) => {
    proxies.clients[target].freeze('answers')
    await sleep(stalledMs)
    await proxies.clients[target].mend()
  },

  'cut-kafka': ({ proxies }) => repeatedly(() => proxies.kafka.reset()),

  /** Running requests arrive long after the time-out of their sender. */
  'stall-kafka': async ({ proxies }) => {
    proxies.kafka.freeze()
    await sleep(stalledMs)
    await proxies.kafka.mend()
  },

  'cut-insert-upload': async (rig) => {
    const { insert, resume } = await holdNextInsert(rig, 'onArrived')
    insert.cut()
    resume()
  },

  /** ClickHouse continues an insert after its client has disconnected, and the writer repeats it meanwhile. */
  'cut-insert-running': async (rig) => {
    const slow = setSlow(rig, slowInsertSeconds)
    const { insert, resume } = await holdNextInsert(rig, 'onArrived')
    resume()
    await waitUntil(() => hasBegun(insert), 'the insert runs', backTimeoutMs)
    slow.end()
    insert.cut()
  },

  'cut-insert-answer': async (rig) => {
    const { insert, resume } = await holdNextInsert(rig, 'onAnswered')
    insert.cut()
    resume()
  },
}

/** One of ClickHouse's servers. */
function serverOf({ clickHouse: { servers } }: Rig, target: number): RigServer {
  return servers[target % servers.length] ?? servers[0]
}

async function restartService(place: RestartableService): Promise<void> {
  await place.kill()
  await place.start()
}

/** Cuts a connection five times, because a single cut may fall between two requests. */
async function repeatedly(cut: () => void): Promise<void> {
  for (let times = 0; times < 5; times++) {
    cut()
    await sleep(200)
  }
}

interface HeldInsert {
  writer: RestartableService
  insert: PassingInsert
  /** Releases the insert unless it was cut. */
  resume: () => void
}

/** Holds the next insert of any writer, or the next with an insert lock. */
async function holdNextInsert(
  { proxies, writers }: Rig,
  point: 'onArrived' | 'onAnswered',
  lock?: number,
): Promise<HeldInsert> {
  const { promise, resolve, reject } = Promise.withResolvers<HeldInsert>()
  const release = (): void => {
    for (const proxy of proxies.clickHouse) proxy.hooks = {}
  }
  for (const [index, proxy] of proxies.clickHouse.entries()) {
    proxy.hooks = {
      [point]: (insert: PassingInsert) => {
        if (lock !== undefined && lockOf(insert) !== lock) return Promise.resolve()
        release()
        return new Promise<void>((resume) => {
          resolve({ writer: writers[index === 0 ? 0 : 1], insert, resume })
        })
      },
    }
  }
  const timer = setTimeout(() => {
    release()
    reject(new Error(`no writer inserted anything within ${insertTimeoutMs} ms`))
  }, insertTimeoutMs)
  return promise.finally(() => clearTimeout(timer))
}

/** Reads the insert lock from a query id, which begins with `writer-<cluster>.chaos.events-<lock>`. */
function lockOf({ queryId }: PassingInsert): number {
  return Number(/\.chaos\.events-(\d+)/.exec(queryId)?.[1])
}

function setSlow({ proxies }: Rig, seconds: number): { end: () => void } {
  for (const proxy of proxies.clickHouse) proxy.slowSeconds = seconds
  return {
    end: () => {
      for (const proxy of proxies.clickHouse) proxy.slowSeconds = 0
    },
  }
}

/** True when the insert is running or has ended: a repeated insert has no new rows, so it may end at once. */
async function hasBegun(insert: PassingInsert): Promise<boolean> {
  if (insert.isOver) return true
  const client = openClickHouse(insert.serverUrl)
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

async function isReady({ url }: RestartableService): Promise<boolean> {
  try {
    const response = await fetch(`${url}/readyz`)
    await response.arrayBuffer()
    return response.ok
  } catch {
    return false
  }
}
