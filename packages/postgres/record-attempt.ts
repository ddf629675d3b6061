import { type Selectable, sql } from 'kysely'
import { type DeliveryStatus, webhookLimits } from '@sluice/contracts/webhooks'
import { type LeaseKey, LeaseLostError } from '@sluice/leases/lease-table'
import { failRequestedDeliveries, failWaitingDeliveries } from './endpoints.ts'
import type { Db, Tables } from './tables.ts'
import { toDate } from './time.ts'

/** A delivery that was attempted. */
export interface AttemptedDelivery extends LeaseKey {
  endpointId: string
  /** Fingerprint of the target. It changes when a user changes the endpoint's target. */
  targetFingerprint: Buffer
}

/** The state of an endpoint according to its latest attempts. Times are Unix ms. */
export interface EndpointHealth {
  /** False when the endpoint is inactive or was disabled. */
  isEnabled: boolean
  /** False for the target of an alert rule: a rule has no field that would show it as disabled. */
  canBeDisabled: boolean
  failingSince: number | null
  failuresInRow: number
  /** Number of deliveries without attempts left since `failingSince`. */
  exhausted: number
}

/** The consequences of an attempt for its delivery and its endpoint. */
export interface AttemptOutcome {
  status: DeliveryStatus
  /** When the next attempt is due, Unix ms; null when there is none. */
  dueAt: number | null
  health: Pick<EndpointHealth, 'failingSince' | 'failuresInRow' | 'exhausted'>
  /** If present, the endpoint is disabled. Users read this reason. */
  disabledReason?: string
}

/** An attempt that is to be recorded. */
export interface RecordedAttempt {
  /** When the attempt began, Unix ms. */
  at: number
  status: number | null
  latencyMs: number
  response: string | null
  error: string | null
  /** Fingerprints of the recipients of an e-mail that need no further attempt, while other recipients do. */
  settledRecipients?: readonly Buffer[]
}

/**
 * Records an attempt in the caller's transaction, and the outcome of `decide`, whose `attempt` is the number of attempts
 * since the schedule began. `now` is Unix ms. Throws LeaseLostError when the lease has ended.
 */
export async function recordAttempt(
  db: Db,
  taken: AttemptedDelivery,
  { attempt, now }: { attempt: RecordedAttempt; now: number },
  decide: (attempt: number, health: EndpointHealth) => AttemptOutcome,
): Promise<AttemptOutcome> {
  // The endpoint first: what changes several of its deliveries locks it first.
  const { health, tries, isMoved } = await lockHeld(db, taken)
  const decided = decide(tries + 1, health)
  const outcome = isMoved ? outcomeAtFormerTarget(decided, health, now) : decided
  await storeAttempt(db, taken, attempt, outcome)
  await storeHealth(db, taken.endpointId, { before: health, outcome, now })
  return outcome
}

/** Locks the endpoint, and the delivery on which the caller has a lease. */
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
  if (!row || !held) throw new LeaseLostError(key)
  const canBeDisabled = row.owner === 'webhook'
  const health = {
    isEnabled: row.active && (row.disabled_at === null || !canBeDisabled),
    canBeDisabled,
    failingSince: row.failing_since?.getTime() ?? null,
    failuresInRow: row.failures_in_row,
    exhausted: row.exhausted,
  }
  return { health, tries: held.tries, isMoved: !row.target_fingerprint.equals(key.targetFingerprint) }
}

function outcomeAtFormerTarget({ status, dueAt }: AttemptOutcome, health: EndpointHealth, now: number): AttemptOutcome {
  return status === 'succeeded' ? { status, dueAt, health } : { status: 'pending', dueAt: now, health }
}

async function storeAttempt(
  db: Db,
  { id }: LeaseKey,
  { at, status, latencyMs, response, error, settledRecipients = [] }: RecordedAttempt,
  outcome: AttemptOutcome,
): Promise<void> {
  const { rows } = await sql<{ attempts: number }>`
    WITH held AS (
      UPDATE deliveries SET
        status = ${outcome.status}, due_at = ${toDate(outcome.dueAt)}, requested = false,
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
  { before, outcome, now }: { before: EndpointHealth; outcome: AttemptOutcome; now: number },
): Promise<void> {
  const { health, disabledReason } = outcome
  const isOff = disabledReason !== undefined
  const isSame =
    before.failingSince === health.failingSince &&
    before.failuresInRow === health.failuresInRow &&
    before.exhausted === health.exhausted
  if (isSame && !isOff) return
  await db
    .updateTable('endpoints')
    .set({
      failing_since: toDate(health.failingSince),
      failures_in_row: health.failuresInRow,
      exhausted: health.exhausted,
      ...(isOff ? { disabled_at: new Date(now), disabled_reason: disabledReason } : {}),
    })
    .where('endpoint_id', '=', endpointId)
    .execute()
  if (isOff) {
    await failWaitingDeliveries(db, [endpointId], now)
    await failRequestedDeliveries(db, endpointId, now)
  }
}
