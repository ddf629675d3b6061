import { internalError } from '@sluice/runtime/errors'
import { sleep } from '@sluice/runtime/sleep'
import { type ClickHouse, parseClickHouseUrl } from './client.ts'
import { openStoreServers } from './cluster.ts'

/** A mutation: a change of a table's parts that ClickHouse makes in the background. */
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
  /** The wait ends when a mutation fails and no mutation has made progress for this long. */
  failingMs: number
}

/** For mutations of whole tables. */
export const mutationWaitTimes: MutationTimes = { pollMs: 1_000, failingMs: 60_000 }

/**
 * Waits until no mutation of the store runs on any server. `onProgress` gets the running mutations each time they have
 * changed. Throws AppError, with what to do, when a mutation fails and there was no progress for `failingMs`.
 */
export async function waitForMutations(
  url: string,
  onProgress: (running: readonly Mutation[]) => void,
  times = mutationWaitTimes,
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

/** `waitForMutations` for a database on open servers. `advice` is what the error tells the operator to do. */
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
    await sleep(pollMs)
  }
}
