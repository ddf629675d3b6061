import { type Selectable, sql } from 'kysely'
import type { Channel, DeliveryKind } from '@sluice/contracts/webhooks'
import { type LeaseKey, leaseMs } from '@sluice/leases/lease-table'
import { failWaitingDeliveries, isNotDisabled } from './endpoints.ts'
import type { Postgres } from './open.ts'
import {
  type AttemptedDelivery,
  type AttemptOutcome,
  type EndpointHealth,
  recordAttempt,
  type RecordedAttempt,
} from './record-attempt.ts'
import type { Db, Tables } from './tables.ts'

/** A delivery that a worker has taken, with what it needs for one attempt. */
export interface TakenDelivery extends AttemptedDelivery {
  siteId: string
  kind: DeliveryKind
  channel: Channel
  encryptedTarget: Buffer
  /** The secret that signs the delivery; null when it is not signed. */
  encryptedSecret: Buffer | null
  /** The previous secret, during a rotation. */
  previousEncryptedSecret: Buffer | null
  body: Buffer
  /** Fingerprints of the recipients of an e-mail that need no further attempt. */
  settledRecipients: readonly Buffer[]
  /** When the attempt became due, Unix ms. */
  dueAt: number
  /** Whether the delivery was never attempted and nobody has requested the attempt. */
  isFirst: boolean
  /** Whether the endpoint has failed at least three times in a row. */
  isFailing: boolean
}

/** Numbers of free slots. */
interface TakeLimits {
  max: number
  failingMax: number
}

type RunningAttempt = Pick<TakenDelivery, 'siteId' | 'isFailing'>

/**
 * The queue for the worker that sends deliveries. Times are Unix ms of the caller's clock. Every method throws AppError
 * `unavailable` while Postgres is unavailable.
 */
export interface DeliveryQueue {
  /**
   * Takes up to `max` due attempts, each for `leaseMs`; at most `failingMax` of them are for failing endpoints. Over
   * all workers, an endpoint has at most four attempts at a time, and a failing endpoint one. A site gets a slot
   * only if at least as many are free as it then occupies with its attempts of `underWay`, those of this worker: so one
   * site occupies half of the slots, two sites a third each, and the next site finds a free one. The same holds for the
   * slots of failing endpoints. Deliveries that wait for an endpoint that is off become `failed`.
   */
  take(now: number, limits: TakeLimits, underWay?: readonly RunningAttempt[]): Promise<TakenDelivery[]>
  /**
   * Records an attempt and the outcome of `decide`, whose `attempt` is the number of attempts since the schedule began.
   * If the endpoint got another target in the meantime, the answer of the former target does not count for the
   * endpoint, and a delivery that failed there is sent to the new target. If the lease has ended, throws LeaseLostError and
   * records nothing.
   */
  record(
    taken: AttemptedDelivery,
    attempt: RecordedAttempt,
    decide: (attempt: number, health: EndpointHealth) => AttemptOutcome,
    now: number,
  ): Promise<AttemptOutcome>
  /** Gives a delivery back without an attempt. Has no effect if the lease has ended. */
  release(taken: LeaseKey): Promise<void>
  /**
   * The number of disabled endpoints, and when the oldest attempt that nobody has taken became due. Attempts of failing
   * endpoints do not count for this time.
   */
  measure(now: number): Promise<{ disabled: number; oldestDueAt: number | undefined }>
  /** Removes up to `max` deliveries that were queued before `before` and have no attempt left. Returns their number. */
  removeOld(before: number, max: number): Promise<number>
}

/** Maximum number of concurrent attempts per endpoint, and per failing endpoint. */
const slots = 4
const slotsOfFailing = 1
/** Number of failures in a row after which an endpoint counts as failing. */
const failingFrom = 3

/** The queue of deliveries in this Postgres. */
export function deliveryQueue(postgres: Postgres): DeliveryQueue {
  return {
    take: (now, limits, underWay = []) =>
      postgres.transaction(async (transaction) => {
        const endpoints = await lockEndpoints(transaction, now, limits, underWay)
        const off = endpoints.filter(({ is_enabled }) => !is_enabled).map(({ endpoint_id }) => endpoint_id)
        if (off.length > 0) await failWaitingDeliveries(transaction, off, now)
        return takeDue(transaction, { endpoints, underWay }, now, limits)
      }),
    record: (taken, attempt, decide, now) =>
      postgres.transaction((transaction) => recordAttempt(transaction, taken, { attempt, now }, decide)),
    release: ({ id, lease }) =>
      postgres.run(async (db) => {
        await sql`
          UPDATE deliveries SET lease_until = NULL, lease = lease + 1
          WHERE delivery_id = ${id} AND lease = ${lease}`.execute(db)
      }),
    measure: (now) =>
      postgres.run(async (db) => {
        const { rows } = await sql<{ disabled: number; due_at: Date | null }>`
          SELECT
            (SELECT count(*)::int FROM endpoints WHERE NOT ${isNotDisabled}) AS disabled,
            (
              SELECT min(first.due_at) FROM ${waitingEndpoints(now)}
              WHERE failures_in_row < ${failingFrom} AND ${busyAt(sql`endpoint.endpoint_id`, now)} < ${slots}::int
            ) AS due_at`.execute(db)
        return { disabled: rows[0]?.disabled ?? 0, oldestDueAt: rows[0]?.due_at?.getTime() }
      }),
    removeOld: (before, max) =>
      postgres.run(async (db) => {
        const { numAffectedRows = 0n } = await sql`
          DELETE FROM deliveries WHERE delivery_id IN (
            SELECT delivery_id FROM deliveries WHERE created_at < ${new Date(before)} AND due_at IS NULL
            ORDER BY created_at LIMIT ${max} FOR UPDATE SKIP LOCKED
          )`.execute(db)
        return Number(numAffectedRows)
      }),
  }
}

/** SQL: a row of `deliveries AS delivery` is due and nobody has a lease on it. */
const isTakeable = (now: number) =>
  sql`due_at <= ${new Date(now)} AND (lease_until IS NULL OR lease_until <= ${new Date(now)})`

/** With fewer due deliveries than this, their endpoints are found without a look at all waiting deliveries. */
const dueMax = 1_000

/**
 * SQL of the endpoints with due deliveries, as `endpoint`, and with the oldest due time as `first.due_at`. It reads
 * only deliveries that are due. If they are many, for example because of an endpoint with a long queue, it takes one
 * step in the index for each endpoint with waiting deliveries instead. The planner expects few elements of the array;
 * to join many rows, it would read all endpoints.
 */
const waitingEndpoints = (now: number) => sql`unnest(ARRAY(
    WITH RECURSIVE due AS MATERIALIZED (
      SELECT endpoint_id FROM deliveries
      WHERE due_at IS NOT NULL AND greatest(due_at, lease_until) <= ${new Date(now)}
      ORDER BY greatest(due_at, lease_until) LIMIT ${dueMax}
    ), waiting AS (
      (
        SELECT endpoint_id FROM deliveries WHERE due_at IS NOT NULL AND (SELECT count(*) FROM due) = ${dueMax}
        ORDER BY endpoint_id LIMIT 1
      )
      UNION ALL
      SELECT (
        SELECT endpoint_id FROM deliveries WHERE due_at IS NOT NULL AND endpoint_id > waiting.endpoint_id
        ORDER BY endpoint_id LIMIT 1
      ) FROM waiting WHERE endpoint_id IS NOT NULL
    )
    SELECT endpoint_id FROM due
    UNION
    SELECT endpoint_id FROM waiting WHERE endpoint_id IS NOT NULL
  )) AS waiting (endpoint_id)
  JOIN endpoints AS endpoint USING (endpoint_id)
  CROSS JOIN LATERAL (
    SELECT due_at FROM deliveries AS delivery WHERE delivery.endpoint_id = endpoint.endpoint_id AND ${isTakeable(now)}
    ORDER BY due_at LIMIT 1
  ) AS first`

const busyAt = (endpointId: ReturnType<typeof sql>, now: number) => sql`(
    SELECT count(*)::int FROM deliveries AS sent
    WHERE sent.endpoint_id = ${endpointId} AND sent.lease_until > ${new Date(now)} AND sent.due_at IS NOT NULL
  )`

/** SQL of the number of running attempts of each site, as `running`. */
const runningAttempts = (underWay: readonly RunningAttempt[]) => sql`(
    SELECT site_id, is_failing, count(*)::int AS attempts FROM unnest(
      ${underWay.map(({ siteId }) => siteId)}::text[], ${underWay.map(({ isFailing }) => isFailing)}::boolean[]
    ) AS attempt (site_id, is_failing) GROUP BY site_id, is_failing
  ) AS running`

/**
 * SQL of a condition on the rows of `placed`: whether their site then occupies no more slots than were free. Failing
 * endpoints get no slot that the others need.
 */
const isWithinShare = ({ max, failingMax }: TakeLimits) => sql`nth_of_site <= 1 - place + CASE WHEN is_failing
    THEN least(${failingMax}::int, ${max}::int - (
      SELECT count(*) FROM placed WHERE NOT is_failing AND nth_of_site <= ${max}::int - place + 1
    ))
    ELSE ${max}::int END`

interface LockedEndpoint {
  endpoint_id: string
  site_id: string
  is_enabled: boolean
  is_failing: boolean
}

/**
 * Locks endpoints that have a due delivery and a free slot. Those of the sites with the fewest running attempts come
 * first, in a site those with the fewest running attempts, then those that have waited longest. Failing ones come after
 * all others, so that any number of failing endpoints delays nobody else. It skips endpoints that another worker has
 * locked, so only one worker at a time counts the slots of an endpoint. The lock does not block the producers of
 * deliveries.
 */
async function lockEndpoints(
  db: Db,
  now: number,
  limits: TakeLimits,
  underWay: readonly RunningAttempt[],
): Promise<LockedEndpoint[]> {
  const isFailing = sql`failures_in_row >= ${failingFrom}`
  const locked = sql`(
      SELECT endpoint_id, site_id, active AND ${isNotDisabled} AS is_enabled, ${isFailing} AS is_failing
      FROM endpoints AS endpoint WHERE endpoint.endpoint_id = waiting.endpoint_id FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked`
  const { rows } = await sql<LockedEndpoint>`
    WITH candidate AS (
      SELECT endpoint_id, site_id, ${isFailing} AS is_failing, first.due_at, ${busyAt(sql`endpoint.endpoint_id`, now)} AS busy
      FROM ${waitingEndpoints(now)}
    ), ranked AS (
      SELECT
        endpoint_id, is_failing, due_at,
        coalesce(attempts, 0) + row_number() OVER (PARTITION BY site_id, is_failing ORDER BY busy, due_at) AS nth_of_site
      FROM candidate LEFT JOIN ${runningAttempts(underWay)} USING (site_id, is_failing)
      WHERE busy < ${slotsOf(sql`is_failing`)} AND coalesce(attempts, 0) < ${limits.max}
    ), placed AS (
      SELECT *, row_number() OVER (PARTITION BY is_failing ORDER BY nth_of_site, due_at) AS place FROM ranked
    )
    -- It locks one endpoint after the other, in this order. The next ones replace those that another worker has locked,
    -- but not failing ones: any number of these could be locked in vain.
    (
      SELECT locked.* FROM (SELECT endpoint_id FROM placed WHERE NOT is_failing ORDER BY place) AS waiting
      CROSS JOIN LATERAL ${locked} LIMIT ${limits.max}
    ) UNION ALL (
      SELECT locked.* FROM (
        SELECT endpoint_id FROM placed WHERE is_failing AND ${isWithinShare(limits)} ORDER BY place
      ) AS waiting
      CROSS JOIN LATERAL ${locked}
    )`.execute(db)
  return rows
}

const slotsOf = (isFailing: ReturnType<typeof sql>) =>
  sql`CASE WHEN ${isFailing} THEN ${slotsOfFailing}::int ELSE ${slots}::int END`

interface TakenRow extends Selectable<Tables['deliveries']> {
  site_id: string
  channel: Channel
  target_box: Buffer
  target_fingerprint: Buffer
  secret_box: Buffer | null
  previous_secret_box: Buffer | null
  is_failing: boolean
}

/**
 * Takes due deliveries of locked endpoints: the first one of every site before the second one of any site, and the same
 * for the endpoints of a site.
 */
async function takeDue(
  db: Db,
  { endpoints, underWay }: { endpoints: readonly LockedEndpoint[]; underWay: readonly RunningAttempt[] },
  now: number,
  limits: TakeLimits,
): Promise<TakenDelivery[]> {
  if (endpoints.length === 0) return []
  // A separate statement, so that it sees the deliveries that other workers took before the endpoints were locked.
  const { rows } = await sql<TakenRow>`
    WITH due AS MATERIALIZED (
      SELECT slot.*, delivery_id, due_at, busy + row_number() OVER (PARTITION BY endpoint_id ORDER BY due_at) AS nth
      FROM unnest(
        ${endpoints.map(({ endpoint_id }) => endpoint_id)}::text[],
        ${endpoints.map(({ site_id }) => site_id)}::text[],
        ${endpoints.map(({ is_enabled }) => is_enabled)}::boolean[],
        ${endpoints.map(({ is_failing }) => is_failing)}::boolean[]
      ) AS slot (endpoint_id, site_id, is_enabled, is_failing)
      CROSS JOIN LATERAL (SELECT ${busyAt(sql`slot.endpoint_id`, now)} AS busy) AS attempts
      CROSS JOIN LATERAL (
        SELECT delivery_id, due_at FROM deliveries AS delivery
        WHERE delivery.endpoint_id = slot.endpoint_id AND ${isTakeable(now)} AND (slot.is_enabled OR requested)
        ORDER BY due_at, delivery_id LIMIT greatest(0, ${slotsOf(sql`slot.is_failing`)} - busy)
        FOR UPDATE SKIP LOCKED
      ) AS due
    ), ranked AS (
      SELECT
        delivery_id, due_at, is_failing,
        coalesce(attempts, 0) + row_number() OVER (PARTITION BY site_id, is_failing ORDER BY nth, due_at) AS nth_of_site
      FROM due LEFT JOIN ${runningAttempts(underWay)} USING (site_id, is_failing)
    ), placed AS (
      SELECT *, row_number() OVER (PARTITION BY is_failing ORDER BY nth_of_site, due_at) AS place FROM ranked
    ), chosen AS MATERIALIZED (
      SELECT delivery_id, is_failing FROM placed WHERE ${isWithinShare(limits)}
    ), taken AS (
      UPDATE deliveries SET lease = lease + 1, lease_until = ${new Date(now + leaseMs)}
      FROM chosen WHERE deliveries.delivery_id = chosen.delivery_id
      RETURNING deliveries.*, chosen.is_failing
    )
    SELECT
      taken.*, site_id, channel, target_box, endpoint.target_fingerprint, coalesce(signer.secret_box, endpoint.secret_box) AS secret_box,
      CASE WHEN coalesce(signer.until, endpoint.previous_secret_until) > ${new Date(now)}
        THEN coalesce(signer.previous_box, endpoint.previous_secret_box) END AS previous_secret_box
    FROM taken JOIN endpoints AS endpoint USING (endpoint_id)
    LEFT JOIN LATERAL (
      -- What an alert rule sends to the URL of webhooks has the signature of the one that gets its transitions (queueForWebhooks).
      SELECT secret_box, previous_secret_box AS previous_box, previous_secret_until AS until FROM endpoints AS webhook
      WHERE webhook.site_id = endpoint.site_id AND webhook.owner = 'webhook'
        AND webhook.target_fingerprint = endpoint.target_fingerprint
      ORDER BY (active AND 'alert' = ANY (events) AND environment = endpoint.environment) DESC, disabled_at IS NOT NULL, seq
      LIMIT 1
    ) AS signer ON endpoint.owner = 'alert_rule' AND endpoint.channel = 'webhook'`.execute(db)
  return rows.map(toTaken)
}

function toTaken(row: TakenRow): TakenDelivery {
  return {
    id: row.delivery_id,
    lease: Number(row.lease),
    endpointId: row.endpoint_id,
    siteId: row.site_id,
    kind: row.kind,
    channel: row.channel,
    encryptedTarget: row.target_box,
    targetFingerprint: row.target_fingerprint,
    encryptedSecret: row.secret_box,
    previousEncryptedSecret: row.previous_secret_box,
    body: row.body,
    settledRecipients: row.settled_recipients,
    dueAt: row.due_at?.getTime() ?? 0,
    isFirst: row.attempts === 0 && !row.requested,
    isFailing: row.is_failing,
  }
}
