import { randomUUID } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { eventLimits } from '@sluice/contracts/event-fields'
import type { ClickHouseAddress } from './client.ts'
import { ClickHouseError } from './errors.ts'

/** Rows to store, as the log carries them: JSON lines of `EventRow` (contracts/event-row.ts). */
export interface EventBatch {
  payloads: readonly Buffer[]
  /** The batch's kind: its rows are all undated with a client's `event_id`, or none is. */
  undated: boolean
}

export interface InsertOptions {
  /** One per log partition: ClickHouse refuses a second insert of the same id while the first runs (code 216). */
  queryId: string
  /** Cancels a running insert of the same id first, and waits for its end. */
  replaceRunning: boolean
  timeoutMs: number
}

/** Inserts events so that any replay of anything converges. */
export interface EventInserter {
  /**
   * Stores the rows that are not stored yet; returns how many those were, and how many ClickHouse read to find out: the
   * batch some times over, and what the look-back took from the table.
   * Throws ClickHouseError; when its `retryable` is true, the same call again is right, whatever became of this one.
   */
  insert(batch: EventBatch, options: InsertOptions): Promise<{ inserted: number; readRows: number }>
  close(): void
}

const columns = [
  'site_id',
  'environment',
  'event_type',
  'timestamp',
  'event_id',
  'undated',
  'session_id',
  'user_id',
  'anonymous_id',
  'url',
  'referrer',
  'country',
  'device_type',
  'properties',
  'property_types',
  'received_at',
]

/** The external table `b`: times stay integers, the insert converts them. */
const structure = [
  'site_id String',
  'environment String',
  'event_type String',
  'timestamp Int64',
  'event_id String',
  'undated UInt8',
  'session_id String',
  'user_id String',
  'anonymous_id String',
  'url String',
  'referrer String',
  'country String',
  'device_type String',
  'properties Map(String, String)',
  'property_types Map(String, String)',
  'received_at Int64',
].join(', ')

const time = `fromUnixTimestamp64Milli(timestamp, 'UTC')`

const select = columns
  .map((column) => {
    if (column === 'timestamp') return `${time} AS timestamp`
    if (column === 'received_at') return `fromUnixTimestamp64Milli(received_at, 'UTC') AS received_at`
    return column
  })
  .join(', ')

/**
 * Dated rows: one per (site_id, environment, event_id, timestamp), for what a dev key sends must not hide what a
 * production key does. The look-back reads only the seconds that the batch itself
 * touches, and of them only rows with one of its ids: 0.02–0.11 s CPU for 20,000 rows of one hot site.
 */
const insertDated = `
INSERT INTO events (${columns.join(', ')})
SELECT ${select} FROM
(
    SELECT * FROM b
    WHERE (site_id, environment, event_id, ${time}) NOT IN
    (
        SELECT site_id, toString(environment), event_id, timestamp FROM events
        WHERE (site_id, toStartOfSecond(timestamp)) IN (SELECT site_id, toStartOfSecond(${time}) FROM b)
          AND event_key IN (SELECT cityHash64(event_id) FROM b)
    )
    LIMIT 1 BY site_id, environment, event_id, timestamp
)`

/** How far apart undated copies may arrive and still be one event. */
const { copyWindowMs } = eventLimits

/**
 * Undated rows (timestamp = time of receipt): of each (site_id, environment, event_id), those that are more than 15 minutes from any
 * that is stored, and from the last one that was kept before them. So every row ends up stored, or within 15 minutes of
 * a stored one, and a repeat of it, in whatever company, stores nothing.
 */
const insertUndated = `
INSERT INTO events (${columns.join(', ')})
SELECT ${select} FROM
(
    SELECT * FROM b
    WHERE (site_id, environment, event_id, timestamp) IN
    (
        SELECT site_id, environment, event_id, arrayJoin(arrayFold(
            (kept, at) -> if(at - kept[-1] > ${copyWindowMs}, arrayPushBack(kept, at), kept),
            arrayFilter(at -> NOT arrayExists(other -> abs(at - other) <= ${copyWindowMs}, stored_at), sent_at),
            emptyArrayInt64()))
        FROM
        (
            SELECT site_id, environment, event_id, arraySort(groupUniqArray(timestamp)) AS sent_at
            FROM b GROUP BY site_id, environment, event_id
        ) AS sent
        LEFT JOIN
        (
            SELECT
                site_id,
                toString(events.environment) AS environment,
                event_id,
                groupArray(toUnixTimestamp64Milli(timestamp)) AS stored_at
            FROM events
            WHERE undated
              AND site_id IN (SELECT site_id FROM b)
              AND timestamp >= (SELECT fromUnixTimestamp64Milli(min(timestamp) - ${copyWindowMs}, 'UTC') FROM b)
              AND timestamp <= (SELECT fromUnixTimestamp64Milli(max(timestamp) + ${copyWindowMs}, 'UTC') FROM b)
              AND event_key IN (SELECT cityHash64(event_id) FROM b)
            GROUP BY site_id, environment, event_id
        ) AS stored USING (site_id, environment, event_id)
    )
    LIMIT 1 BY site_id, environment, event_id, timestamp
)`

const settings = {
  async_insert: '0',
  wait_end_of_query: '1',
  // A batch over more than 100 months is legal, if rare.
  throw_on_max_partitions_per_insert_block: '0',
  replace_running_query_max_wait_ms: '10000',
  // A row of a newer build is refused rather than stored without the field that this build doesn't know.
  input_format_skip_unknown_fields: '0',
}

/**
 * Posts batches as the HTTP external table `b` (multipart), which @clickhouse/client has no call for.
 * Keeps connections open; `close` ends them.
 */
export function eventInserter(address: ClickHouseAddress): EventInserter {
  const { request } = address.origin.startsWith('https:') ? https : http
  const Agent = address.origin.startsWith('https:') ? https.Agent : http.Agent
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const boundary = `sluice-${randomUUID()}`
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="b"; filename="b"\r\nContent-Type: application/octet-stream\r\n\r\n`,
  )
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)

  return {
    insert: ({ payloads, undated }, { queryId, replaceRunning, timeoutMs }) => {
      const search = new URLSearchParams({
        ...settings,
        database: address.database,
        query: undated ? insertUndated : insertDated,
        query_id: queryId,
        replace_running_query: replaceRunning ? '1' : '0',
        max_execution_time: String(Math.ceil(timeoutMs / 1000)),
        b_format: 'JSONEachRow',
        b_structure: structure,
      })
      const contentLength = payloads.reduce((sum, { length }) => sum + length, head.length + tail.length)

      return new Promise((resolve, reject) => {
        const call = request(`${address.origin}/?${search.toString()}`, {
          method: 'POST',
          agent,
          // ClickHouse goes on with an insert whose client left: after a time-out the caller must replace it.
          signal: AbortSignal.timeout(timeoutMs),
          headers: {
            'Content-Type': `multipart/form-data; boundary=${boundary}`,
            'Content-Length': contentLength,
            Authorization: `Basic ${Buffer.from(`${address.username}:${address.password}`).toString('base64')}`,
          },
        })
        const fail = (error: unknown): void => {
          reject(new ClickHouseError(undefined, error instanceof Error ? error.message : String(error), error))
        }
        call.on('error', fail)
        call.on('response', (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', fail)
          response.on('end', () => {
            const code = response.headers['x-clickhouse-exception-code']
            if (response.statusCode === 200 && code === undefined) {
              const summary = JSON.parse(String(response.headers['x-clickhouse-summary'] ?? '{}')) as Record<
                string,
                string
              >
              resolve({ inserted: Number(summary.written_rows ?? 0), readRows: Number(summary.read_rows ?? 0) })
            } else {
              const text = Buffer.concat(chunks).toString('utf8').slice(0, 2_000)
              reject(
                new ClickHouseError(
                  code === undefined ? undefined : Number(code),
                  text || `HTTP ${response.statusCode ?? 0}`,
                ),
              )
            }
          })
        })
        call.write(head)
        for (const payload of payloads) call.write(payload)
        call.end(tail)
      })
    },
    close: () => {
      agent.destroy()
    },
  }
}
