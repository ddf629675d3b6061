import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Environment } from '@sluice/contracts/scopes'
import type { Channel, DeliveryKind, SummaryInterval } from '@sluice/contracts/webhooks'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import type { Postgres } from './open.ts'
import type { Db, Tables } from './tables.ts'
import { toDate } from './time.ts'

/**
 * Where deliveries go, as it is stored; the server of the user that gets them is its receiver. The caller encrypts and
 * decrypts (packages/runtime/secret-cipher.ts).
 */
export interface Endpoint {
  /** The id of the webhook or alert rule that owns the endpoint. */
  endpointId: string
  siteId: string
  owner: 'webhook' | 'alert_rule'
  channel: Channel
  /** Encrypted target: the URL, or for `email` the JSON list of addresses; `targetFingerprint` is its keyed hash. */
  encryptedTarget: Buffer
  targetFingerprint: Buffer
  /** Null when deliveries are not signed. */
  encryptedSecret: Buffer | null
  /** The secret before the last rotation. Deliveries are signed with it too until `previousSecretUntil` (Unix ms). */
  previousEncryptedSecret: Buffer | null
  previousSecretUntil: number | null
  events: readonly DeliveryKind[]
  active: boolean
  summaryInterval: SummaryInterval | null
  keyId: string
  environment: Environment
  /** Unix ms of the first failure in a row; null: the last attempt did not fail. */
  failingSince: number | null
  failuresInRow: number
  exhausted: number
  /** Unix ms; null: the endpoint was not disabled after failures. */
  disabledAt: number | null
  disabledReason: string | null
  /** Unix ms. */
  createdAt: number
  /** Unix ms of the last change; at first that of the creation. */
  updatedAt: number
}

/** An endpoint that is to be stored. */
export type NewEndpoint = Pick<
  Endpoint,
  | 'endpointId'
  | 'siteId'
  | 'owner'
  | 'channel'
  | 'encryptedTarget'
  | 'targetFingerprint'
  | 'encryptedSecret'
  | 'events'
  | 'active'
  | 'summaryInterval'
  | 'keyId'
  | 'environment'
>

/** The fields of an endpoint that are changed; absent or undefined fields keep their values. */
export type EndpointChanges = {
  [
    Field in
      | 'channel'
      | 'encryptedTarget'
      | 'targetFingerprint'
      | 'encryptedSecret'
      | 'previousEncryptedSecret'
      | 'previousSecretUntil'
      | 'events'
      | 'active'
      | 'summaryInterval'
  ]?: Endpoint[Field] | undefined
}

/** Stores an endpoint that was created at `at` (Unix ms). */
export async function insertEndpoint(db: Db, endpoint: NewEndpoint, at: number): Promise<Endpoint> {
  const row = await db
    .insertInto('endpoints')
    .values({
      endpoint_id: endpoint.endpointId,
      site_id: endpoint.siteId,
      owner: endpoint.owner,
      channel: endpoint.channel,
      target_box: endpoint.encryptedTarget,
      target_fingerprint: endpoint.targetFingerprint,
      secret_box: endpoint.encryptedSecret,
      events: [...endpoint.events],
      active: endpoint.active,
      summary_interval: endpoint.summaryInterval,
      key_id: endpoint.keyId,
      environment: endpoint.environment,
      created_at: new Date(at),
      updated_at: new Date(at),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  return toEndpoint(row)
}

/**
 * Changes the present fields, in the caller's transaction. Undefined when there is no such endpoint. `active: true`
 * switches deliveries on again and resets the failures; another target only resets the failures. With `active: false`,
 * waiting deliveries become `failed` (`failWaitingDeliveries`), and those of a webhook that was on until then
 * also if a user requested them (`failRequestedDeliveries`). With another channel, all unsent deliveries become
 * `failed`, because their bodies have the form of the former channel.
 */
export async function updateEndpoint(
  db: Db,
  endpointId: string,
  changes: EndpointChanges,
  at: number,
): Promise<Endpoint | undefined> {
  const { channel, encryptedTarget, targetFingerprint, encryptedSecret, previousEncryptedSecret, previousSecretUntil } =
    changes
  const { events, active, summaryInterval } = changes
  const former = await db
    .selectFrom('endpoints')
    .select(['channel', 'target_fingerprint', 'owner', 'active', 'disabled_at'])
    .where('endpoint_id', '=', endpointId)
    .forUpdate()
    .executeTakeFirst()
  const isMoved = targetFingerprint && former && !former.target_fingerprint.equals(targetFingerprint)
  const row = await db
    .updateTable('endpoints')
    .set({
      channel,
      target_box: encryptedTarget,
      target_fingerprint: targetFingerprint,
      secret_box: encryptedSecret,
      previous_secret_box: previousEncryptedSecret,
      previous_secret_until: toDate(previousSecretUntil),
      events: events && [...events],
      active,
      summary_interval: summaryInterval,
      ...(active === true || isMoved ? { failing_since: null, failures_in_row: 0, exhausted: 0 } : {}),
      ...(active === true ? { disabled_at: null, disabled_reason: null } : {}),
      updated_at: new Date(at),
    })
    .where('endpoint_id', '=', endpointId)
    .returningAll()
    .executeTakeFirst()
  if (active === false) {
    await failWaitingDeliveries(db, [endpointId], at)
    const wasOn = former?.owner === 'webhook' && former.active && former.disabled_at === null
    if (wasOn) await failRequestedDeliveries(db, endpointId, at)
  }
  if (former && channel !== undefined && channel !== former.channel)
    await failDeliveries(db, sql`endpoint_id = ${endpointId}`)
  return row && toEndpoint(row)
}

/** A statement that changes or removes more deliveries could exceed its time-out. */
export const deliveriesAtOnceMax = 5_000

/**
 * Removes the deliveries of the endpoints that meet `condition`, in several transactions. Call it before the deletion of
 * these endpoints: the deletion then removes only what was queued since.
 */
export async function removeDeliveries(postgres: Postgres, condition: RawBuilder<unknown>): Promise<void> {
  const removeSome = async (transaction: Db) => {
    const endpoints = await sql<{ endpoint_id: string }>`
      SELECT endpoint_id FROM endpoints WHERE ${condition} ORDER BY endpoint_id FOR NO KEY UPDATE`.execute(transaction)
    const { numAffectedRows } = await sql`
      DELETE FROM deliveries WHERE delivery_id IN (
        SELECT delivery_id FROM deliveries
        WHERE endpoint_id = ANY (${endpoints.rows.map(({ endpoint_id }) => endpoint_id)}::text[])
        LIMIT ${deliveriesAtOnceMax}
      )`.execute(transaction)
    return Number(numAffectedRows)
  }
  while ((await postgres.transaction(removeSome)) === deliveriesAtOnceMax);
}

/** Removes an endpoint with its deliveries. False when there is none. */
export async function deleteEndpoint(db: Db, endpointId: string): Promise<boolean> {
  const { numDeletedRows } = await db.deleteFrom('endpoints').where('endpoint_id', '=', endpointId).executeTakeFirst()
  return numDeletedRows > 0n
}

/**
 * Removes the endpoints of a site, of webhooks and alert rules, with their deliveries. They are locked in the order in
 * which deliveries are queued for them.
 */
export async function deleteSiteEndpoints(db: Db, siteId: string): Promise<void> {
  await sql`SELECT FROM endpoints WHERE site_id = ${siteId} ORDER BY endpoint_id FOR UPDATE`.execute(db)
  await db.deleteFrom('endpoints').where('site_id', '=', siteId).execute()
}

/**
 * SQL: the endpoint was not disabled. The endpoint of an alert rule never is. Earlier builds may have set its
 * `disabled_at`, but the record of a rule does not show that.
 */
export const isNotDisabled = sql`(disabled_at IS NULL OR owner = 'alert_rule')`

/**
 * Makes waiting deliveries of these endpoints `failed`, except those that a user requested and those that are being
 * sent. If there are more than `deliveriesAtOnceMax`, the first ones to fall due. The others follow when they fall due,
 * because workers call this function for endpoints that are off. Returns the number of those that it has changed.
 */
export async function failWaitingDeliveries(db: Db, endpointIds: readonly string[], at: number): Promise<number> {
  return failWaiting(db, sql`endpoint_id = ANY (${[...endpointIds]}::text[]) AND NOT requested`, at)
}

/**
 * Makes the waiting deliveries of a webhook that a user requested `failed`, up to `deliveriesAtOnceMax` of them. To be
 * called in the transaction that switches the webhook off: what is requested later, at a webhook that is off, has one
 * attempt. A test keeps its attempt, because it is delivered whatever the state of the webhook.
 */
export async function failRequestedDeliveries(db: Db, endpointId: string, at: number): Promise<void> {
  await failWaiting(db, sql`endpoint_id = ${endpointId} AND requested AND kind <> 'webhook.test'`, at)
}

/** Makes the first `deliveriesAtOnceMax` waiting deliveries that meet `condition` `failed`. Returns their number. */
async function failWaiting(db: Db, condition: RawBuilder<unknown>, at: number): Promise<number> {
  const first = sql`
    SELECT delivery_id FROM deliveries
    WHERE due_at IS NOT NULL AND ${condition} AND (lease_until IS NULL OR lease_until <= ${new Date(at)})
    ORDER BY due_at LIMIT ${deliveriesAtOnceMax}`
  return failDeliveries(db, sql`delivery_id IN (${first})`)
}

/** Makes unsent deliveries `failed`. Returns their number. */
async function failDeliveries(db: Db, condition: RawBuilder<unknown>): Promise<number> {
  const { numAffectedRows } = await sql`
    UPDATE deliveries SET status = 'failed', due_at = NULL, lease_until = NULL, lease = lease + 1
    WHERE due_at IS NOT NULL AND ${condition}`.execute(db)
  return Number(numAffectedRows)
}

/** Converts a row of `endpoints`. */
export function toEndpoint(row: Selectable<Tables['endpoints']>): Endpoint {
  return {
    endpointId: row.endpoint_id,
    siteId: row.site_id,
    owner: row.owner,
    channel: row.channel,
    encryptedTarget: row.target_box,
    targetFingerprint: row.target_fingerprint,
    encryptedSecret: row.secret_box,
    previousEncryptedSecret: row.previous_secret_box,
    previousSecretUntil: row.previous_secret_until?.getTime() ?? null,
    events: row.events,
    active: row.active,
    summaryInterval: row.summary_interval,
    keyId: row.key_id,
    environment: row.environment,
    failingSince: row.failing_since?.getTime() ?? null,
    failuresInRow: row.failures_in_row,
    exhausted: row.exhausted,
    disabledAt: row.disabled_at?.getTime() ?? null,
    disabledReason: row.disabled_reason,
    createdAt: row.created_at.getTime(),
    updatedAt: row.updated_at.getTime(),
  }
}

/** Encrypts a target. Its fingerprint is the same for equivalent URLs. */
export function encryptTarget(
  secrets: Pick<SecretCipher, 'encrypt' | 'fingerprint'>,
  channel: Channel,
  target: string,
): Pick<Endpoint, 'encryptedTarget' | 'targetFingerprint'> {
  const normal = channel === 'email' ? target : new URL(target).href
  return { encryptedTarget: secrets.encrypt(target), targetFingerprint: secrets.fingerprint(normal) }
}
