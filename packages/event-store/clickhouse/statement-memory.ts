import type { ClickHouse } from './client.ts'

/** Bytes that one statement may hold, unless the server has too little memory. */
export const statementBytesMax = 4_000_000_000
/** The share of the server's memory that one statement may hold. The rest is for caches, inserts and merges. */
const serverShare = 0.8
/** In ms, equal to the time limit of a check of the server. */
const timeoutMs = 2_000
/**
 * The pause after a request for the server's limit that failed: the server was unavailable, or the user may not read
 * the limit.
 */
const retryMs = 60_000
/** The age of the server's limit from which it is requested again: the server may have been restarted with another one. */
const limitAgeMsMax = 600_000

/**
 * The memory limit of one statement, in bytes: 4 GB, or less on a server whose own limit is lower. If the limit of the
 * statement were above the server's, a statement that needs too much memory would fail as if other statements had used
 * the memory up, and callers would repeat it in vain. Until the server has returned its limit, which is requested at
 * most once a minute, the limit is 4 GB. Later, a limit older than 10 minutes is requested again, in the background. With
 * a cluster, the server of the URL is asked.
 */
export function statementMemory(
  client: Pick<ClickHouse, 'query'>,
  now: () => number = () => performance.now(),
): () => Promise<number> {
  let limit: number | undefined
  let readAt = -Infinity
  let askedAt = -Infinity
  let asking: Promise<void> | undefined
  const ask = async (): Promise<void> => {
    try {
      limit = limitFor(await readServerMemory(client))
      readAt = now()
    } catch {
      // If ClickHouse is unavailable, the statement itself will fail.
    }
  }
  return async () => {
    if (now() - readAt >= limitAgeMsMax && now() - askedAt >= retryMs) {
      askedAt = now()
      asking = ask()
    }
    if (limit === undefined) await asking
    return limit ?? statementBytesMax
  }
}

/** Bytes that the server may hold; 0 for no limit. */
async function readServerMemory(client: Pick<ClickHouse, 'query'>): Promise<number> {
  const { rows } = await client.query<{ bytes: number }>(
    `SELECT toUInt64(value) AS bytes FROM system.server_settings WHERE name = 'max_server_memory_usage'`,
    {},
    { signal: AbortSignal.timeout(timeoutMs), settings: { readonly: '2' } },
  )
  return rows[0]?.bytes ?? 0
}

function limitFor(serverBytes: number): number {
  return serverBytes === 0 ? statementBytesMax : Math.min(statementBytesMax, Math.floor(serverBytes * serverShare))
}
