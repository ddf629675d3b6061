import { type Selectable, sql } from 'kysely'
import type { Channel, DeliveryKind, DeliveryStatus } from '@sluice/contracts/webhooks'
import { webhookLimits } from '@sluice/contracts/webhooks'
import { type LeaseKey, LeaseLost, leaseMs } from '@sluice/leases/lease-table'
import { failWaitingDeliveries, isNotSwitchedOff } from './endpoints.ts'
import type { Postgres } from './open.ts'
import type { Db, Tables } from './tables.ts'

/** A delivery that a worker has taken, with what it needs for one attempt. */
export interface TakenDelivery extends LeaseKey {
  endpointId: string
  siteId: string
  kind: DeliveryKind
  channel: Channel
  encryptedTarget: Buffer
  /** Names the target: it changes when a user moves the endpoint. */
  targetFingerprint: Buffer
  /** The secret that signs; null: nothing is signed. */
  encryptedSecret: Buffer | null
  /** The secret before a rotation that is under way. */
  previousEncryptedSecret: Buffer | null
  body: Buffer
  /** Fingerprints of the recipients of an e-mail that need no further attempt. */
  settledRecipients: readonly Buffer[]
  /** Since when the attempt was due, Unix ms. */
  dueAt: number
  /** The delivery was never attempted, and nobody has requested the attempt. */
  isFirst: boolean
  /** The endpoint has failed three times in a row. */
  isFailing: boolean
}

type AttemptedDelivery = LeaseKey & Pick<TakenDelivery, 'endpointId' | 'targetFingerprint'>

/** Outcomes of the latest attempts at an endpoint. Times are Unix ms. */
export interface EndpointHealth {
  /** False: it is inactive or was switched off. */
  isOn: boolean
  /** False for the target of an alert rule: a rule has no field that would show it as disabled. */
  canBeSwitchedOff: boolean
  failingSince: number | null
  failuresInRow: number
  /** Deliveries that ran out of attempts since then. */
  exhausted: number
}

/** The consequences of an attempt for its delivery and its endpoint. */
export interface Verdict {
  status: DeliveryStatus
  /** When the next attempt is due, Unix ms; null: none follows. */
  dueAt: number | null
  health: Pick<EndpointHealth, 'failingSince' | 'failuresInRow' | 'exhausted'>
  /** Present: the endpoint is switched off for this reason, which users read. */
  disabledReason?: string
}

/** An attempt that is to be recorded. */
export interface RecordedAttempt {
  /** When it began, Unix ms. */
  at: number
  status: number | null
  latencyMs: number
  response: string | null
  error: string | null
  /** Fingerprints of the recipients of an e-mail that need no further attempt, while others do. */
  settledRecipients?: readonly Buffer[]
}

/**
 * The queue as the worker that sends sees it. Times are Unix ms of the caller's clock. Every method throws AppError 503
 * while Postgres is unavailable.
 */
export interface DeliveryQueue {
  /**
   * Takes up to `max` attempts that are due, each for `leaseMs`, at most `failingMax` of them of failing endpoints: at
   * most four at a time per endpoint over all workers, and one for a failing endpoint. Deliveries that wait for an
   * endpoint that is off become `failed`.
   */
  take(now: number, limits: { max: number; failingMax: number }): Promise<TakenDelivery[]>
  /**
   * Records an attempt with what `judge` makes of it, `attempt` being its number since the schedule began. An endpoint
   * that was moved meanwhile is not judged by what its former target answered: a delivery that failed there goes to the
   * new one. Throws LeaseLost, and nothing is recorded, if the lease has ended.
   */
  record(
    taken: AttemptedDelivery,
    attempt: RecordedAttempt,
    judge: (attempt: number, health: EndpointHealth) => Verdict,
    now: number,
  ): Promise<Verdict>
  /** Gives a delivery back without an attempt. Nothing happens if the lease has ended. */
  release(taken: LeaseKey): Promise<void>
  /** Number of disabled endpoints, and due time of the oldest untaken attempt, ignoring failing endpoints. */
  measure(now: number): Promise<{ disabled: number; oldestDueAt: number | undefined }>
  /** Removes up to `max` deliveries that were queued before then and have no attempt left; returns how many. */
  removeOld(before: number, max: number): Promise<number>
}

/** Attempts of an endpoint at a time, and of one that is failing. */
const slots = 4
const slotsOfFailing = 1
/** Failures in a row from which an endpoint counts as failing. */
const failingFrom = 3

/** The queue of deliveries in this Postgres. */
export function deliveryQueue(postgres: Postgres): DeliveryQueue {
  return {
    take: (now, limits) =>
      postgres.transaction(async (transaction) => {
        const endpoints = await lockEndpoints(transaction, new Date(now), limits)
        const off = endpoints.filter(({ is_on }) => !is_on).map(({ endpoint_id }) => endpoint_id)
        if (off.length > 0) await failWaitingDeliveries(transaction, off, now)
        return takeDue(transaction, endpoints, new Date(now), limits.max)
      }),
    record: (taken, attempt, judge, now) =>
      postgres.transaction(async (transaction) => {
        // The endpoint first, as everything locks it that changes its deliveries.
        const { health, tries, isMoved } = await lockHeld(transaction, taken)
        const judged = judge(tries + 1, health)
        const verdict = isMoved ? verdictOfFormerTarget(judged, health, now) : judged
        await storeAttempt(transaction, taken, attempt, verdict)
        await storeHealth(transaction, taken.endpointId, { before: health, verdict, now })
        return verdict
      }),
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
            (SELECT count(*)::int FROM endpoints WHERE NOT ${isNotSwitchedOff}) AS disabled,
            (
              SELECT min(first.due_at) FROM ${waitingEndpoints(new Date(now))}
              WHERE failures_in_row < ${failingFrom} AND ${busyAt(sql`endpoint.endpoint_id`, new Date(now))} < ${slots}::int
            ) AS due_at`.execute(db)
        return { disabled: rows[0]?.disabled ?? 0, oldestDueAt: rows[0]?.due_at?.getTime() }
      }),
    removeOld: (before, max) =>
      postgres.run(async (db) => {
        const { numAffectedRows = 0n } = await sql`
          DELETE FROM deliveries WHERE delivery_id IN (
            SELECT delivery_id FROM deliveries WHERE created_at < ${new Date(before)} AND due_at IS NULL
            ORDER BY created_at LIMIT ${max}
          )`.execute(db)
        return Number(numAffectedRows)
      }),
  }
}

/** SQL: a row of `deliveries AS delivery` is due and under no lease. */
const isTakeable = (now: Date) => sql`due_at <= ${now} AND (lease_until IS NULL OR lease_until <= ${now})`

/**
 * The endpoints that have something due, as `endpoint`, with `first.due_at`. One step of the index for each endpoint
 * that has something waiting: a receiver whose queue is long costs no more than another.
 */
const waitingEndpoints = (now: Date) => sql`(
    WITH RECURSIVE waiting AS (
      (SELECT endpoint_id FROM deliveries WHERE due_at IS NOT NULL ORDER BY endpoint_id LIMIT 1)
      UNION ALL
      SELECT (
        SELECT endpoint_id FROM deliveries WHERE due_at IS NOT NULL AND endpoint_id > waiting.endpoint_id
        ORDER BY endpoint_id LIMIT 1
      ) FROM waiting WHERE endpoint_id IS NOT NULL
    )
    SELECT endpoint_id FROM waiting WHERE endpoint_id IS NOT NULL
  ) AS waiting
  JOIN endpoints AS endpoint USING (endpoint_id)
  CROSS JOIN LATERAL (
    SELECT due_at FROM deliveries AS delivery WHERE delivery.endpoint_id = endpoint.endpoint_id AND ${isTakeable(now)}
    ORDER BY due_at LIMIT 1
  ) AS first`

const busyAt = (endpointId: ReturnType<typeof sql>, now: Date) => sql`(
    SELECT count(*)::int FROM deliveries AS sent
    WHERE sent.endpoint_id = ${endpointId} AND sent.lease_until > ${now} AND sent.due_at IS NOT NULL
  )`

interface LockedEndpoint {
  endpoint_id: string
  is_on: boolean
  is_failing: boolean
}

/**
 * Locks endpoints that have something due and a free slot: those that have waited longest, and failing ones after all
 * others, which they must not keep waiting however many they are. Another worker that takes at the same time gets
 * others: so the slots are counted by one worker at a time. Producers are not kept waiting.
 */
async function lockEndpoints(
  db: Db,
  now: Date,
  { max, failingMax }: { max: number; failingMax: number },
): Promise<LockedEndpoint[]> {
  const isFailing = sql`failures_in_row >= ${failingFrom}`
  const { rows } = await sql<LockedEndpoint>`
    SELECT endpoint.endpoint_id, active AND ${isNotSwitchedOff} AS is_on, ${isFailing} AS is_failing
    FROM ${waitingEndpoints(now)}
    WHERE ${busyAt(sql`endpoint.endpoint_id`, now)} < ${slotsOf(isFailing)} AND (${failingMax > 0} OR NOT ${isFailing})
    ORDER BY ${isFailing}, first.due_at LIMIT ${max} FOR NO KEY UPDATE OF endpoint SKIP LOCKED`.execute(db)
  let failing = 0
  return rows.filter(({ is_failing }) => !is_failing || (failing += 1) <= failingMax)
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

/** Takes what is due at locked endpoints: the first of each before the second of any. */
async function takeDue(db: Db, endpoints: readonly LockedEndpoint[], now: Date, max: number): Promise<TakenDelivery[]> {
  if (endpoints.length === 0) return []
  // A statement of its own, so that it sees what workers took before the endpoints were locked.
  const { rows } = await sql<TakenRow>`
    WITH chosen AS MATERIALIZED (
      SELECT delivery_id, is_failing FROM (
        SELECT due.delivery_id, slot.is_failing, row_number() OVER (PARTITION BY slot.endpoint_id ORDER BY due.due_at) AS n
        FROM unnest(
          ${endpoints.map(({ endpoint_id }) => endpoint_id)}::text[],
          ${endpoints.map(({ is_on }) => is_on)}::boolean[],
          ${endpoints.map(({ is_failing }) => is_failing)}::boolean[]
        ) AS slot (endpoint_id, is_on, is_failing)
        CROSS JOIN LATERAL (
          SELECT delivery_id, due_at FROM deliveries AS delivery
          WHERE delivery.endpoint_id = slot.endpoint_id AND ${isTakeable(now)} AND (slot.is_on OR requested)
          ORDER BY due_at, delivery_id
          LIMIT greatest(0, ${slotsOf(sql`slot.is_failing`)} - ${busyAt(sql`slot.endpoint_id`, now)})
          FOR UPDATE SKIP LOCKED
        ) AS due
      ) AS due ORDER BY n LIMIT ${max}
    ), taken AS (
      UPDATE deliveries SET lease = lease + 1, lease_until = ${new Date(now.getTime() + leaseMs)}
      FROM chosen WHERE deliveries.delivery_id = chosen.delivery_id
      RETURNING deliveries.*, chosen.is_failing
    )
    SELECT
      taken.*, site_id, channel, target_box, endpoint.target_fingerprint, coalesce(signer.secret_box, endpoint.secret_box) AS secret_box,
      CASE WHEN coalesce(signer.until, endpoint.previous_secret_until) > ${now}
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

/** Locks the endpoint and the delivery that the caller holds. */
async function lockHeld(
  db: Db,
  key: AttemptedDelivery,
): Promise<{ health: EndpointHealth; tries: number; isMoved: boolean }> {
  const endpoint = await sql<Selectable<Tables['endpoints']>>`
    SELECT * FROM endpoints WHERE endpoint_id = ${key.endpointId} FOR NO KEY UPDATE`.execute(db)
  const delivery = await sql<{ tries: number }>`
    SELECT tries FROM deliveries WHERE delivery_id = ${key.id} AND lease = ${key.lease} FOR UPDATE`.execute(db)
  const [row] = endpoint.rows
  const [held] = delivery.rows
  if (!row || !held) throw new LeaseLost(key)
  const canBeSwitchedOff = row.owner === 'webhook'
  const health = {
    isOn: row.active && (row.disabled_at === null || !canBeSwitchedOff),
    canBeSwitchedOff,
    failingSince: row.failing_since?.getTime() ?? null,
    failuresInRow: row.failures_in_row,
    exhausted: row.exhausted,
  }
  return { health, tries: held.tries, isMoved: !row.target_fingerprint.equals(key.targetFingerprint) }
}

function verdictOfFormerTarget({ status, dueAt }: Verdict, health: EndpointHealth, now: number): Verdict {
  return status === 'succeeded' ? { status, dueAt, health } : { status: 'pending', dueAt: now, health }
}

async function storeAttempt(
  db: Db,
  { id }: LeaseKey,
  { at, status, latencyMs, response, error, settledRecipients = [] }: RecordedAttempt,
  verdict: Verdict,
): Promise<void> {
  const { rows } = await sql<{ attempts: number }>`
    WITH held AS (
      UPDATE deliveries SET
        status = ${verdict.status}, due_at = ${verdict.dueAt === null ? null : new Date(verdict.dueAt)}, requested = false,
        tries = tries + 1, attempts = attempts + 1, lease_until = NULL, lease = lease + 1,
        settled_recipients = settled_recipients || ${[...settledRecipients]}::bytea[]
      WHERE delivery_id = ${id} RETURNING attempts
    )
    INSERT INTO attempts (delivery_id, n, at, status, latency_ms, response, error)
    SELECT ${id}::text, attempts, ${new Date(at)}::timestamptz, ${status}::int, ${latencyMs}::int, ${response}::text, ${error}::text
    FROM held RETURNING n AS attempts`.execute(db)
  const lastRemoved = (rows[0]?.attempts ?? 0) - webhookLimits.attemptsKeptMax
  if (lastRemoved > 0)
    await db.deleteFrom('attempts').where('delivery_id', '=', id).where('n', '<=', lastRemoved).execute()
}

async function storeHealth(
  db: Db,
  endpointId: string,
  { before, verdict, now }: { before: EndpointHealth; verdict: Verdict; now: number },
): Promise<void> {
  const { health, disabledReason } = verdict
  const isOff = disabledReason !== undefined && before.isOn
  const isSame =
    before.failingSince === health.failingSince &&
    before.failuresInRow === health.failuresInRow &&
    before.exhausted === health.exhausted
  if (isSame && !isOff) return
  await db
    .updateTable('endpoints')
    .set({
      failing_since: health.failingSince === null ? null : new Date(health.failingSince),
      failures_in_row: health.failuresInRow,
      exhausted: health.exhausted,
      ...(isOff ? { disabled_at: new Date(now), disabled_reason: disabledReason } : {}),
    })
    .where('endpoint_id', '=', endpointId)
    .execute()
  if (isOff) await failWaitingDeliveries(db, [endpointId], now)
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
