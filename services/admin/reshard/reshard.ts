import { openEventLog } from '@sluice/event-log/open-event-log'
import { requirePartitionsMultipleOf } from '@sluice/event-log/require-partitions-multiple-of'
import { openResharding, type Resharding } from '@sluice/event-store/reshard/resharding'
import type { ReshardTarget } from '@sluice/event-store/reshard/servers'
import { checkPostgresSchema, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { oneShardLeaseMs, shardStore } from '@sluice/postgres/shards'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { internalError, internalMessage } from '@sluice/runtime/errors'
import { silentLogger } from '@sluice/runtime/silent-logger'
import { migrate } from '../migrate/migrate.ts'
import { timeText } from '../time-text.ts'

export interface ReshardEngines {
  postgres: Postgres
  /** URL of the store before its shards are doubled. */
  clickHouseUrl: string
  logUrl: string
}

export interface ReshardOptions extends ReshardTarget {
  /** Prints a line for the operator. */
  say: (line: string) => void
  /** Room that a server needs, as a multiple of what it gets. */
  spaceFactor?: number
  /** Replaces `eventsPlacedMs`. */
  placedAfterMs?: number
}

/**
 * Time after the start of a doubling from which on every newly accepted event is in a partition of its new shard. Then
 * all gateways know of the doubling, and every publish that began before has ended.
 */
const eventsPlacedMs = oneShardLeaseMs + 60_000

/** Prints what each server would get; changes nothing. Throws as `copyEvents` does. */
export async function planReshard(engines: ReshardEngines, options: ReshardOptions): Promise<void> {
  await withResharding(engines, options, async (resharding) => {
    await requireDoubling(engines, resharding)
    for (const { server, from, events, bytes, freeBytes } of await resharding.check()) {
      options.say(
        `${server}: about ${grouped(events)} events of ${from}, ${grouped(bytes)} bytes to write, ` +
          `${grouped(freeBytes)} bytes are free`,
      )
    }
    options.say('Nothing was changed.')
  })
}

/**
 * Copies the store while all services run. A repeated call copies what has changed since. Throws, with what to do and
 * nothing changed, when the servers, their disks, the schemas or the log's partitions don't fit.
 */
export async function copyEvents(engines: ReshardEngines, options: ReshardOptions): Promise<void> {
  await withResharding(engines, options, async (resharding) => {
    await requireDoubling(engines, resharding)
    await resharding.check()
    // Gateways then place events for the new number of shards.
    await shardStore(engines.postgres).startDoubling()
    await resharding.prepare()
    const copied = await resharding.copy(options.say)
    options.say(
      `${copied === 0 ? 'The copy is complete; nothing differed.' : `${copied} parts that differed are copied.`} Next, stop the ` +
        'query services, the writers and the workers, and add --finish to the command. The gateways go on: the log keeps the ' +
        'events until the writers start again.',
    )
  })
}

/**
 * Copies what has changed since `copyEvents`, when nothing can change any more, and lets the new database replace the
 * old one. A repeated call continues where an interrupted one stopped.
 */
export async function finishReshard(engines: ReshardEngines, options: ReshardOptions): Promise<void> {
  const { postgres, logUrl } = engines
  const { say } = options
  const shards = shardStore(postgres)
  const url = await withResharding(engines, options, async (resharding) => {
    const recorded = await shards.readState()
    if (recorded?.number === 2 * resharding.shards) {
      // With another database, `migrate` would make a new store there, or open a different one.
      if (await resharding.isDone()) return resharding.url
      throw internalError(
        `The number of shards was already doubled, but not into the database ${options.database}. If the earlier command was ` +
          'interrupted, run it again with the same --database.',
      )
    }
    await requireDoubling(engines, resharding)
    const since = recorded?.doublingSince ?? undefined
    if (recorded === undefined || since === undefined) {
      throw internalError('There is nothing to finish. Run the command without --finish first, while the services run.')
    }
    await resharding.check()
    await requirePlacedEvents(postgres, since + (options.placedAfterMs ?? eventsPlacedMs))
    resharding.requirePrepared()
    // The first step may have been killed before it had made all tables, or may have been run by an earlier build.
    await resharding.prepare()
    await resharding.waitForMutations(say)
    try {
      await resharding.retire(say)
      await copyAll(resharding, say)
      // From here on the new database is the store: a service may open it after the migration.
      await shards.double(recorded)
      return resharding.url
    } catch (error) {
      throw new Error(
        `${internalMessage(error)}\nNo service can use ClickHouse now. Run the command again, or with --cancel, which gives ` +
          'the services the old database back.',
        { cause: error },
      )
    }
  })
  await migrate({ postgres, clickHouseUrl: url, logUrl })
  const { pathname, search } = new URL(url)
  say(
    `Done. Replace the end of SLUICE_CLICKHOUSE_URL of all services and commands by ${pathname}${search}, and start the services. ` +
      'The old database is kept: drop it when you no longer need it (docs/scale-out.md).',
  )
}

/**
 * Cancels a doubling that is not finished: services use the old database again. Servers that join may be unavailable;
 * they are listed with what is left there. A repeated call continues where an interrupted one stopped.
 */
export async function cancelReshard(engines: ReshardEngines, options: ReshardOptions): Promise<void> {
  const shards = shardStore(engines.postgres)
  await withResharding(engines, options, async (resharding) => {
    await shards.requireSame(resharding.shards)
    const recorded = await shards.readState()
    const isDoubling = recorded !== undefined && recorded.doublingSince !== null
    if (!(await resharding.checkStarted()) && !isDoubling) {
      throw internalError(`There is nothing to cancel: no reshard into the database ${options.database} was started.`)
    }
    // First, so that a command which has lost its lock can't double the number any more.
    if (isDoubling) await shards.cancelDoubling(recorded)
    const kept = await resharding.cancel()
    options.say('Reshard cancelled: services can use the old database.')
    if (kept.length === 0) return
    options.say(
      `These servers do not answer: ${kept.join(', ')}. When they do, repeat the command, or drop the database ` +
        `${options.database} there, which holds copies.`,
    )
  })
}

/** No other command of a reshard, and no migration, runs meanwhile. */
async function withResharding<T>(
  { postgres, clickHouseUrl }: ReshardEngines,
  { cluster, database, spaceFactor }: ReshardOptions,
  work: (resharding: Resharding) => Promise<T>,
): Promise<T> {
  await checkPostgresSchema(postgres)
  return withMigrationLock(postgres, async () => {
    const resharding = await openResharding(
      clickHouseUrl,
      { cluster, database },
      spaceFactor === undefined ? {} : { spaceFactor },
    )
    try {
      return await work(resharding)
    } finally {
      await resharding.close()
    }
  })
}

/**
 * Throws, with what to do, when Postgres knows another number of shards, or the log can't be spread over twice as many.
 */
async function requireDoubling({ postgres, logUrl }: ReshardEngines, { shards }: Resharding): Promise<void> {
  const recorded = await shardStore(postgres).read()
  if (recorded === undefined) throw internalError('Postgres knows no number of shards. Run "npm run migrate".')
  await shardStore(postgres).requireSame(shards)
  const log = await openEventLog(logUrl, { logger: silentLogger })
  try {
    requirePartitionsMultipleOf(2 * shards, await log.partitions())
  } finally {
    await log.close()
  }
}

/**
 * Before the gateways knew of the doubling, they may have placed events for the old number of shards only. With one
 * shard, events with generated ids may be in any partition. If the number of partitions is no multiple of the new
 * number of shards, all events may be in the wrong partition. Throws, with what to do, while such an event may be in
 * the log, from which it would be stored on the wrong shard.
 */
async function requirePlacedEvents(postgres: Postgres, placedSince: number): Promise<void> {
  const { all } = await watermarkStore(postgres).readCompleteTimes()
  if (all >= placedSince) return
  throw internalError(
    `Events that were accepted before ${timeText(placedSince)} may be placed for the old number of shards, and the writers have ` +
      `stored ${all === 0 ? 'none yet' : `those until ${timeText(all)}`}. Let the writers run until they have stored the others, ` +
      'and run the command again.',
  )
}

/** Copies until a pass over the whole store finds no difference. */
async function copyAll(resharding: Resharding, say: (line: string) => void): Promise<void> {
  if ((await resharding.copy(say)) === 0) return
  say('Comparing…')
  if ((await resharding.copy(say)) === 0) return
  throw new Error(
    'The copies differ from their originals although nothing changes any more. If a month was copied again, rows of it may be ' +
      'stored twice: "OPTIMIZE TABLE events PARTITION <month> FINAL" on the old server merges them.',
  )
}

/** `1,234`. */
function grouped(count: number): string {
  return count.toLocaleString('en-US')
}
