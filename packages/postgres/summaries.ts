import { type Selectable, sql } from 'kysely'
import type { Environment } from '@sluice/contracts/scopes'
import { hourMs } from '@sluice/contracts/time-units'
import type { SummaryInterval } from '@sluice/contracts/webhooks'
import type { LeaseKey, LeaseTable } from '@sluice/leases/lease-table'
import { queueDeliveries } from './deliveries.ts'
import { leaseTable, progress, updateHeld } from './leases.ts'
import type { Postgres } from './open.ts'
import type { Db, Tables } from './tables.ts'

/** The summaries of one environment of a site at one interval. All webhooks that take them get the same ones. */
export interface SummaryJob {
  siteId: string
  environment: Environment
  interval: SummaryInterval
  /**
   * Unix ms: since when a webhook takes these summaries, or its last change before the job was added
   * (docs/http-interface.md#event-summary). The first summary is of the period that contains this time.
   */
  since: number
  /** Start of the next period, Unix ms; null before the first one. */
  nextStart: number | null
}

/** A finished period. Times are Unix ms. */
export interface FinishedPeriod {
  start: number
  end: number
  /** The body of the deliveries; undefined: the period has no summary. */
  body: Uint8Array | undefined
}

/**
 * Times `now` are Unix ms of the caller's clock. Every method throws AppError `unavailable` while Postgres is
 * unavailable.
 */
export interface SummaryStore {
  /**
   * The summaries as jobs. A take first compares the jobs with the webhooks: it adds missing jobs, and removes those
   * whose summaries no webhook takes any more. A job that fails repeatedly is tried again an hour later.
   */
  leases: LeaseTable<SummaryJob>
  /**
   * Advances to the next period, and in the same transaction queues the summary for the webhooks that take it and were
   * created before the period ended. Throws LeaseLostError without the lease.
   */
  finish(lease: LeaseKey, job: SummaryJob, period: FinishedPeriod, now: number): Promise<void>
}

const failedRetryMs = hourMs
/** How often the jobs are compared with the webhooks. */
const syncIntervalMs = 10_000

/** The summaries of this Postgres. */
export function summaryStore(postgres: Postgres): SummaryStore {
  const leases = leaseTable(postgres, 'summaries', toJob)
  let syncedAt = -Infinity
  return {
    leases: {
      ...leases,
      take: async (now, max) => {
        if (Math.abs(now - syncedAt) >= syncIntervalMs) {
          await postgres.run((db) => syncWithWebhooks(db, now))
          syncedAt = now
        }
        return leases.take(now, max)
      },
      fail: (lease, _error, now) =>
        postgres.run((db) => updateHeld(db, 'summaries', lease, sql`failures = 0, due_at = ${later(now)}`)),
    },
    finish: (lease, job, { start, end, body }, now) =>
      postgres.transaction(async (transaction) => {
        await updateHeld(transaction, 'summaries', lease, sql`next_start = ${new Date(end)}, ${progress}`)
        if (!body) return
        const endpointIds = await subscribedEndpoints(transaction, job, end)
        const source = `event_summary ${job.interval} ${start}`
        const deliveries = endpointIds.map((endpointId) => ({
          endpointId,
          source,
          kind: 'event_summary' as const,
          body,
        }))
        await queueDeliveries(transaction, deliveries, now)
      }),
  }
}

function later(now: number): Date {
  return new Date(now + failedRetryMs)
}

/** SQL of the condition that an endpoint takes summaries. */
const takesSummaries = sql`
  owner = 'webhook' AND active AND 'event_summary' = ANY (events) AND summary_interval IS NOT NULL`
/** Only the site's part of the id may contain a slash. */
const summaryId = sql`environment || '/' || summary_interval || '/' || site_id`

async function syncWithWebhooks(db: Db, now: number): Promise<void> {
  await sql`
    INSERT INTO summaries (summary_id, site_id, environment, summary_interval, since, due_at)
    SELECT ${summaryId}, site_id, environment, summary_interval, min(updated_at), ${new Date(now)}::timestamptz
    FROM endpoints WHERE ${takesSummaries}
    GROUP BY site_id, environment, summary_interval
    ORDER BY 1
    ON CONFLICT DO NOTHING`.execute(db)
  await sql`
    DELETE FROM summaries WHERE summary_id IN (
      SELECT summary_id FROM summaries AS job
      WHERE NOT EXISTS (
        SELECT FROM endpoints
        WHERE ${takesSummaries} AND endpoints.site_id = job.site_id AND endpoints.environment = job.environment
          AND endpoints.summary_interval = job.summary_interval
      )
      FOR UPDATE SKIP LOCKED
    )`.execute(db)
}

/**
 * Webhooks that take the summary. If several have the same URL, only the oldest that is not disabled, as in
 * `queueForWebhooks`.
 */
async function subscribedEndpoints(
  db: Db,
  { siteId, environment, interval }: SummaryJob,
  end: number,
): Promise<string[]> {
  const { rows } = await sql<{ endpoint_id: string }>`
    SELECT DISTINCT ON (target_fingerprint) endpoint_id FROM endpoints
    WHERE ${takesSummaries} AND site_id = ${siteId} AND environment = ${environment} AND summary_interval = ${interval}
      AND created_at < ${new Date(end)}
    ORDER BY target_fingerprint, disabled_at IS NOT NULL, seq`.execute(db)
  return rows.map(({ endpoint_id }) => endpoint_id)
}

function toJob(row: Selectable<Tables['summaries']>): SummaryJob {
  return {
    siteId: row.site_id,
    environment: row.environment,
    interval: row.summary_interval,
    since: row.since.getTime(),
    nextStart: row.next_start?.getTime() ?? null,
  }
}
