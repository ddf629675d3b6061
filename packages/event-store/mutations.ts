import { setTimeout } from 'node:timers/promises'
import { internalError } from '@sluice/runtime/errors'
import { type ClickHouse, parseClickHouseUrl } from './client.ts'
import { openStoreServers } from './cluster.ts'

/** A change of the parts of a table that ClickHouse makes in the background. */
export interface Mutation {
  table: string
  command: string
  /** Parts that are still to be changed. */
  parts: number
  /** Why the last attempt failed; empty if none did. ClickHouse retries it indefinitely. */
  failure: string
}

interface MutationTimes {
  pollMs: number
  /** A mutation that fails and makes no progress for so long ends the wait. */
  failingMs: number
}

/** For mutations of whole tables. */
export const defaultTimes: MutationTimes = { pollMs: 1_000, failingMs: 60_000 }

/**
 * Waits until the store has no running mutation, on any server of its cluster. `onProgress` gets those that run,
 * whenever they have changed. Throws AppError, with what to do, when nothing but failures have happened for
 * `failingMs`.
 */
export async function waitForMutations(
  url: string,
  onProgress: (running: readonly Mutation[]) => void,
  times = defaultTimes,
): Promise<void> {
  const address = parseClickHouseUrl(url)
  const servers = await openStoreServers(address)
  const advice = 'Remove the reason; the migration itself is done, and "npm run migrate -- --wait" waits again.'
  try {
    await waitForMutationsOf(servers, address.database, { onProgress, advice, ...times })
  } finally {
    await Promise.all(servers.map((server) => server.close()))
  }
}

/** As `waitForMutations`, for a database of servers that are open. `advice` is what the error says to do. */
export async function waitForMutationsOf(
  servers: readonly Pick<ClickHouse, 'query'>[],
  database: string,
  {
    advice,
    onProgress,
    pollMs,
    failingMs,
  }: { advice: string; onProgress?: (running: readonly Mutation[]) => void } & MutationTimes,
): Promise<void> {
  let before = ''
  let progressAt = performance.now()
  for (;;) {
    const answers = await Promise.all(
      servers.map((server) =>
        server.query<Mutation>(
          `SELECT table, command, parts_to_do AS parts, latest_fail_reason AS failure FROM system.mutations
           WHERE database = {database:String} AND NOT is_done AND NOT is_killed ORDER BY create_time, mutation_id`,
          { database },
        ),
      ),
    )
    const rows = answers.flatMap((answer) => answer.rows)
    if (rows.length === 0) return
    const state = JSON.stringify(rows.map(({ table, command, parts }) => [table, command, parts]))
    if (state !== before) {
      before = state
      progressAt = performance.now()
      onProgress?.(rows)
    }
    const failing = rows.find(({ failure }) => failure !== '')
    if (failing !== undefined && performance.now() - progressAt >= failingMs) {
      const { table, command, failure } = failing
      throw internalError(`ClickHouse repeats a mutation of ${table} that fails: ${command}: ${failure} ${advice}`)
    }
    await setTimeout(pollMs)
  }
}
