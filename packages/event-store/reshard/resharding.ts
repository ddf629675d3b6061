import { internalError, isRetryable } from '@sluice/runtime/errors'
import { sum } from '@sluice/runtime/sum'
import { mapServers, retiredDatabase } from '../clickhouse/cluster.ts'
import { mutationWaitTimes, waitForMutationsOf } from '../clickhouse/mutations.ts'
import { waitForStatements } from '../clickhouse/running-statements.ts'
import { createClosedStore } from '../migrate.ts'
import { checkRecordedShards } from '../store-identity.ts'
import {
  type CheckedStore,
  checkReshard,
  defaultSpaceFactor,
  findStarted,
  type PlannedShard,
  type StartedReshard,
} from './check.ts'
import { copyFrom } from './copy.ts'
import { openReshardServers, type ReshardTarget } from './servers.ts'

/**
 * Doubles the number of a store's shards. services/admin/reshard decides the order of the steps, and each step can be
 * repeated. Every method throws ClickHouseError, and throws AppError, with what to do, when the servers or their
 * databases don't match.
 */
export interface Resharding {
  /** The number of shards before the doubling. */
  shards: number
  /** SLUICE_CLICKHOUSE_URL after the doubling. */
  url: string
  /** Whether the doubling is done: the old database was renamed, and the new one holds the shards of the same store. */
  isDone(): Promise<boolean>
  /** Checks the servers and their databases; changes nothing. Must be called before the other steps. */
  check(): Promise<readonly PlannedShard[]>
  /** Creates the new database on each server of the cluster. No service can use it before `migrateClickHouse`. */
  prepare(): Promise<void>
  /** Throws when, at the time of the check, `prepare` had not created the new database on every server. */
  requirePrepared(): void
  /**
   * Copies each month of events, the users and the tombstones where the new database differs, and returns the number of
   * copied parts. Services may run during the copy and change what was copied, so it is repeated. `say` gets a line
   * after each part.
   */
  copy(say: (line: string) => void): Promise<number>
  /**
   * Waits for the mutations of the store, which may take long, while services can still use it. `say` gets a line for
   * each running mutation when they have changed.
   */
  waitForMutations(say: (line: string) => void): Promise<void>
  /**
   * Renames the database on the old servers, so that no further statement of a service finds it. Then waits until the
   * statements and the mutations that run have ended. `say` is as for `waitForMutations`.
   */
  retire(say: (line: string) => void): Promise<void>
  /**
   * Checks as `check` does, but for `cancel`: joining servers may be unavailable. Returns whether there is anything to
   * undo.
   */
  checkStarted(): Promise<boolean>
  /**
   * Gives the old database its name back, and drops the new one. Returns the servers that did not answer and may still
   * have the new database.
   */
  cancel(): Promise<readonly string[]>
  close(): Promise<void>
}

/** Prepares the doubling of the store at `url`. Throws the errors of its methods. */
export async function openResharding(
  url: string,
  target: ReshardTarget,
  { spaceFactor = defaultSpaceFactor } = {},
): Promise<Resharding> {
  const servers = await openReshardServers(url, target)
  const { database, old, joining } = servers
  const all = [...old, ...joining]
  const shards = old.length
  const retired = retiredDatabase(database)
  let checked: CheckedStore | undefined
  let started: StartedReshard | undefined

  function store(): CheckedStore {
    if (checked === undefined) throw new TypeError('the servers are not checked yet')
    return checked
  }

  function waitForMutationsOn(
    { anywhere, address }: (typeof old)[number],
    place: string,
    say: (line: string) => void,
  ): Promise<void> {
    return waitForMutationsOf([anywhere], place, {
      onProgress: (running) => {
        for (const { table, parts } of running) {
          say(`${address.origin}: a mutation of ${table} has yet to change ${parts} parts.`)
        }
      },
      advice: 'Remove the reason.',
      ...mutationWaitTimes,
    })
  }

  return {
    shards,
    url: servers.url,
    isDone: async () => {
      const before = await checkRecordedShards(old.map(({ address }) => ({ ...address, database: retired })))
      const after = await checkRecordedShards(all.map(({ address }) => address))
      const [id] = before.map((recorded) => recorded?.id)
      return id !== undefined && [...before, ...after].every((recorded) => recorded?.id === id)
    },
    check: async () => {
      checked = await checkReshard(servers, spaceFactor)
      return checked.planned
    },
    prepare: async () => {
      const { recorded, id } = store()
      await createClosedStore(
        all.map(({ address }) => address),
        recorded,
        id,
      )
    },
    requirePrepared: () => {
      if (!store().recorded.includes(undefined)) return
      throw internalError(
        `The database ${target.database} holds no copy of the events. Run the command without --finish first, or name the database ` +
          'that it has filled.',
      )
    },
    copy: async (say) => {
      const { sources } = store()
      // A command that was killed, or that has lost its lock, may have left statements that run. They would change what
      // is compared now.
      await mapServers(all, ({ anywhere }) =>
        waitForStatements(anywhere, target.database, { kinds: ['Insert', 'Alter', 'Drop'] }),
      )
      const copied = await mapServers(old, async (server, shard) => {
        const joined = joining[shard]
        if (joined === undefined) throw new TypeError(`nothing joins shard ${shard}`)
        return copyFrom(
          { server, database: sources[shard] ?? database, shards, target },
          [
            { server, shard },
            { server: joined, shard: shard + shards },
          ],
          say,
        )
      })
      return sum(copied)
    },
    waitForMutations: async (say) => {
      const { sources } = store()
      await mapServers(old, async (server, shard) => {
        if (sources[shard] === database) await waitForMutationsOn(server, database, say)
      })
    },
    retire: async (say) => {
      const { sources } = store()
      await mapServers(old, async (server, shard) => {
        const { anywhere } = server
        if (sources[shard] === database) await anywhere.command(`RENAME DATABASE ${database} TO ${retired}`)
        await waitForStatements(anywhere, database, { kinds: ['Insert', 'Delete', 'Alter', 'Update'] })
        // Otherwise the copy would contain rows that running deletions have yet to delete.
        await waitForMutationsOn(server, retired, say)
      })
      checked = { ...store(), sources: old.map(() => retired) }
    },
    checkStarted: async () => {
      started = await findStarted(servers)
      return started.copies.length > 0 || started.sources.includes(retired)
    },
    cancel: async () => {
      if (started === undefined) throw new TypeError('it is not known yet what was started')
      const { sources, copies, unreachable } = started
      await mapServers(old, async ({ anywhere }, shard) => {
        if (sources[shard] === retired) await anywhere.command(`RENAME DATABASE ${retired} TO ${database}`)
      })
      const dropped = await mapServers(copies, async ({ anywhere }) => {
        try {
          await anywhere.command(`DROP DATABASE IF EXISTS ${target.database} SYNC`)
          return true
        } catch (error) {
          if (isRetryable(error)) return false
          throw error
        }
      })
      return [...unreachable, ...copies.filter((_, index) => !dropped[index])].map(({ address }) => address.origin)
    },
    close: () => servers.close(),
  }
}
