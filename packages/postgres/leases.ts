import { type RawBuilder, type Selectable, sql } from 'kysely'
import { type JobCounts, type LeaseKey, LeaseLostError, leaseMs, type LeaseTable } from '@sluice/leases/lease-table'
import { takeTurns } from './erasure-turns.ts'
import { keyTurns } from './key-turns.ts'
import type { Postgres } from './open.ts'
import type { Db, Tables } from './tables.ts'

interface WorkTable {
  /** The column of the job's id. */
  id: string
  /** SQL of a further condition on the row `job`. A job that is due at `at` is taken only if it is true. */
  canTake: (at: Date) => RawBuilder<unknown>
  /**
   * SQL of a query with the columns `id` and `turn` of jobs that are due at `at`. Only these are taken, in the order of
   * `turn`. Absent: the job that has been due longest comes first.
   */
  turns?: (at: Date) => RawBuilder<unknown>
  /** Columns that a take sets in addition to those of the lease. */
  onTake: RawBuilder<unknown>
  /** SQL of the next due time of a job that is released without one and has not ended. */
  dueAfterEnd: RawBuilder<unknown>
}

/** Number of units in a row without progress after which a job counts as failing. They take about nine minutes. */
const failingTries = 10

/** A job that is released without a due time has ended. */
const never = sql`NULL`
/** The due time that `fail` has set. Jobs of these tables end only by `fail`. */
const asSetByFail = sql`due_at`
/** The due time that `fail` has set for a failed job. A job that has ended without a failure has no due time. */
const asSetByFailOrNever = sql`CASE WHEN status = 'failed' THEN due_at END`

const isUnfinished = sql`status IN ('queued', 'processing')`

/** The tables of jobs. Each has `status` and the columns of `LeaseColumns` (tables.ts). */
const workTables = {
  imports: {
    id: 'import_id',
    // A site's imports run one after the other, so that many files of one site leave other sites their turns. One step
    // in the index finds the oldest unfinished import of a site, however many follow it.
    canTake: () => sql`job.seq IN (
      WITH RECURSIVE oldest AS (
        (SELECT site_id, seq FROM imports WHERE ${isUnfinished} ORDER BY site_id, seq LIMIT 1)
        UNION ALL
        SELECT next.* FROM oldest CROSS JOIN LATERAL (
          SELECT site_id, seq FROM imports WHERE ${isUnfinished} AND site_id > oldest.site_id
          ORDER BY site_id, seq LIMIT 1
        ) AS next
      )
      SELECT seq FROM oldest
    )`,
    turns: (at) => keyTurns({ table: 'imports', id: 'import_id', candidates: isUnfinished, condition: sql`true` }, at),
    onTake: sql`status = 'processing'`,
    dueAfterEnd: never,
  },
  erasures: {
    id: 'erasure_id',
    canTake: () => sql`true`,
    // A site's erasures run at the same time, because most of them only wait for ClickHouse.
    turns: takeTurns,
    onTake: sql`status = 'processing'`,
    dueAfterEnd: sql`failed_at + interval '1 hour'`,
  },
  chores: {
    id: 'name',
    canTake: () => sql`true`,
    onTake: sql`status = 'processing'`,
    dueAfterEnd: asSetByFailOrNever,
  },
  canary_runs: {
    id: 'name',
    canTake: () => sql`true`,
    onTake: sql`status = 'processing'`,
    dueAfterEnd: asSetByFailOrNever,
  },
  exports: {
    id: 'export_id',
    // A site's exports also run one after the other. An export that waits for another attempt lets later ones pass.
    canTake: (at) => sql`NOT EXISTS (
      SELECT FROM exports AS other
      WHERE other.site_id = job.site_id AND other.due_at IS NOT NULL
        AND (other.seq < job.seq AND other.due_at <= ${at} OR other.seq <> job.seq AND other.lease_until > ${at})
    )`,
    turns: (at) => {
      const candidates = sql`due_at IS NOT NULL`
      return keyTurns({ table: 'exports', id: 'export_id', candidates, condition: sql`due_at <= ${at}` }, at)
    },
    // A failed run may be due again.
    onTake: sql`status = 'processing', error = NULL, finished_at = NULL`,
    dueAfterEnd: asSetByFailOrNever,
  },
  alert_sites: {
    id: 'site_id',
    canTake: () => sql`true`,
    onTake: sql`status = 'active'`,
    dueAfterEnd: asSetByFail,
  },
  export_schedules: {
    id: 'schedule_id',
    canTake: () => sql`true`,
    onTake: sql`status = 'active'`,
    dueAfterEnd: never,
  },
  summaries: {
    id: 'summary_id',
    canTake: () => sql`true`,
    onTake: sql`status = 'active'`,
    dueAfterEnd: asSetByFail,
  },
} as const satisfies Readonly<Record<string, WorkTable>>

export type WorkTableName = keyof typeof workTables

/**
 * The leases on the rows of a table of jobs. Each store implements `fail` itself. `toJob` converts a row. All times
 * come from the caller, because the clock of the workers decides, not the time of a transaction.
 */
export function leaseTable<N extends WorkTableName, Job>(
  postgres: Postgres,
  name: N,
  toJob: (row: Selectable<Tables[N]>) => Job,
): Omit<LeaseTable<Job>, 'fail'> {
  const { id, canTake, turns, onTake, dueAfterEnd }: WorkTable = workTables[name]
  const table = sql.table(name)
  const idColumn = sql.ref(id)

  return {
    take: (now, max) =>
      postgres.run(async (db) => {
        const until = new Date(now + leaseMs)
        const inTurn = turns && sql`JOIN (${turns(new Date(now))}) AS turns ON turns.id = job.${idColumn}`
        // Materialized, because a plan that repeated the selection would lock more rows than `max`. A lease that has
        // expired was not released: its worker has died or lost its connection to Postgres.
        const { rows } = await sql<
          Selectable<Tables[N]> & { id: string; lease: string; failures: number; due_at: Date }
        >`
          WITH due AS MATERIALIZED (
            SELECT job.${idColumn} AS id FROM ${table} AS job ${inTurn ?? sql``}
            WHERE ${isDue(now, canTake)}
            ORDER BY ${inTurn ? sql`turns.turn` : sql`due_at`} LIMIT ${max} FOR UPDATE OF job SKIP LOCKED
          )
          UPDATE ${table} AS job SET
            lease = lease + 1, lease_until = ${until},
            tries = tries + (lease_until IS NOT NULL)::int, failures = failures + (lease_until IS NOT NULL)::int,
            ${onTake}
          FROM due WHERE job.${idColumn} = due.id
          RETURNING job.*, due.id`.execute(db)
        return rows.map((row) => ({
          id: row.id,
          lease: Number(row.lease),
          failures: row.failures,
          dueAt: row.due_at.getTime(),
          job: toJob(row),
        }))
      }),
    renew: (key, now) =>
      postgres.run(async (db) => {
        const until = new Date(now + leaseMs)
        if (await tryUpdate(db, name, key, sql`lease_until = ${until}`)) return 'held'
        const { rows } = await sql`
          SELECT 1 FROM ${table} WHERE ${idColumn} = ${key.id} AND status = 'cancelled'`.execute(db)
        return rows.length > 0 ? 'cancelled' : 'lost'
      }),
    // A job that has ended has no due time and keeps none. Its worker may not know that the transaction which ended the
    // job was committed, and may release the job for another attempt.
    release: (key, dueAt, { isProgress }) =>
      postgres.run((db) =>
        updateHeld(
          db,
          name,
          key,
          sql`
            ${isProgress ? sql`${progress}, ` : sql``}
            due_at = CASE WHEN due_at IS NOT NULL THEN (${dueAt === null ? dueAfterEnd : new Date(dueAt)})::timestamptz END,
            ${leaseEnd}`,
        ),
      ),
    countFailure: (key, { isCausedByJob }) =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ tries: number; failures: number }>`
          UPDATE ${table} SET tries = tries + 1, failures = failures + ${isCausedByJob ? 1 : 0}
          WHERE ${isHeld(name, key)} RETURNING tries, failures`.execute(db)
        const [counts] = rows
        if (counts === undefined) throw new LeaseLostError(key)
        return counts
      }),
    oldestDue: (now) =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ due_at: Date }>`
          SELECT due_at FROM ${table} AS job WHERE ${isDue(now, canTake)} ORDER BY due_at LIMIT 1`.execute(db)
        return rows[0]?.due_at.getTime()
      }),
    count: (now) =>
      postgres.run(async (db) => {
        const at = new Date(now)
        const isFree = sql`(lease_until IS NULL OR lease_until <= ${at})`
        const { rows } = await sql<Record<keyof JobCounts, number>>`
          SELECT
            count(*) FILTER (WHERE lease_until > ${at})::int AS running,
            count(*) FILTER (WHERE ${isFree} AND due_at <= ${at})::int AS waiting,
            count(*) FILTER (WHERE ${isFree} AND due_at > ${at})::int AS scheduled,
            count(*) FILTER (WHERE tries >= ${failingTries})::int AS failing
          FROM ${table} WHERE due_at IS NOT NULL`.execute(db)
        return rows[0] ?? { running: 0, waiting: 0, scheduled: 0, failing: 0 }
      }),
  }
}

/**
 * Updates the row of a job on which the caller has a lease. The statement also protects the transaction around it: it
 * throws LeaseLostError when the lease has ended or another worker has one.
 */
export async function updateHeld(db: Db, name: WorkTableName, key: LeaseKey, set: RawBuilder<unknown>): Promise<void> {
  if (!(await tryUpdate(db, name, key, set))) throw new LeaseLostError(key)
}

async function tryUpdate(db: Db, name: WorkTableName, key: LeaseKey, set: RawBuilder<unknown>): Promise<boolean> {
  const { numAffectedRows } = await sql`UPDATE ${sql.table(name)} SET ${set} WHERE ${isHeld(name, key)}`.execute(db)
  return numAffectedRows === 1n
}

/** SQL of the assignments after a unit with progress: the counts of failures are reset. */
export const progress = sql`tries = 0, failures = 0`

/**
 * SQL of the assignments that end a lease. The number changes, so that the former holder can no longer change the row.
 */
export const leaseEnd = sql`lease_until = NULL, lease = lease + 1`

function isHeld(name: WorkTableName, { id, lease }: LeaseKey) {
  return sql`${sql.ref(workTables[name].id)} = ${id} AND lease = ${lease}`
}

function isDue(now: number, canTake: WorkTable['canTake']) {
  const at = new Date(now)
  return sql`due_at <= ${at} AND (lease_until IS NULL OR lease_until <= ${at}) AND ${canTake(at)}`
}
