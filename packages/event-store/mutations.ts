import { setTimeout } from 'node:timers/promises'
import { type AppError, internalError } from '@sluice/runtime/errors'
import { parseClickHouseUrl } from './client.ts'
import { openStoreServers } from './cluster.ts'

/** A change of the parts of a table that ClickHouse makes in the background. */
export interface Mutation {
  table: string
  command: string
  /** Parts that are still to be changed. */
  parts: number
  /** Why the last attempt failed; empty if none did. ClickHouse repeats it for ever. */
  failure: string
}

const defaults = { pollMs: 1_000, failingMs: 60_000 }

/**
 * Waits until the database has no running mutation, on any server of its cluster. `onProgress` gets those that run, whenever they have changed. Throws
 * AppError, with what to do, when nothing but failures have happened for `failingMs`.
 */
export async function waitForMutations(
  url: string,
  onProgress: (running: readonly Mutation[]) => void,
  { pollMs, failingMs }: { pollMs: number; failingMs: number } = defaults,
): Promise<void> {
  const servers = await openStoreServers(parseClickHouseUrl(url))
  try {
    let before = ''
    let progressAt = performance.now()
    for (;;) {
      const answers = await Promise.all(
        servers.map((server) =>
          server.query<Mutation>(
            `SELECT table, command, parts_to_do AS parts, latest_fail_reason AS failure FROM system.mutations
             WHERE database = currentDatabase() AND NOT is_done ORDER BY create_time, mutation_id`,
          ),
        ),
      )
      const rows = answers.flatMap((answer) => answer.rows)
      if (rows.length === 0) return
      const state = JSON.stringify(rows.map(({ table, command, parts }) => [table, command, parts]))
      if (state !== before) {
        before = state
        progressAt = performance.now()
        onProgress(rows)
      }
      const failing = rows.find(({ failure }) => failure !== '')
      if (failing !== undefined && performance.now() - progressAt >= failingMs) throw doesNotEnd(failing)
      await setTimeout(pollMs)
    }
  } finally {
    await Promise.all(servers.map((server) => server.close()))
  }
}

function doesNotEnd({ table, command, failure }: Mutation): AppError {
  return internalError(
    `ClickHouse repeats a mutation of ${table} that fails: ${command}: ${failure} Remove the reason; ` +
      'the migration itself is done, and "npm run migrate -- --wait" waits again.',
  )
}
