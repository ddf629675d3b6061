import { sql } from 'kysely'
import type { Environment } from '@sluice/contracts/scopes'
import type { DeliveryBody, DeliveryKind } from '@sluice/contracts/webhooks'
import { newId } from '@sluice/runtime/ids'
import { isNotDisabled } from './endpoints.ts'
import type { Db } from './tables.ts'

/** A delivery that is to be queued. */
export interface NewDelivery {
  endpointId: string
  /**
   * Identifies the occurrence, for example `import:imp_…`. An endpoint gets one delivery for each source, even if it is
   * queued several times.
   */
  source: string
  kind: DeliveryKind
  /** The bytes that are sent. For e-mail, JSON of `{subject, text}`. */
  body: Uint8Array
  /** A user requested the delivery: one attempt is made even if the endpoint is off. */
  requested?: boolean
}

/**
 * Queues deliveries in the transaction of the occurrence that they report, so that both are stored or neither. Inactive
 * endpoints get no deliveries. Deliveries to a disabled endpoint are stored as `failed`, for a later recovery. If
 * another transaction is deleting an endpoint, waits for it and queues nothing for that endpoint. `now` is Unix ms.
 * Returns the ids of the new deliveries.
 */
export async function queueDeliveries(
  transaction: Db,
  deliveries: readonly NewDelivery[],
  now: number,
): Promise<string[]> {
  if (deliveries.length === 0) return []
  // In one order, because transactions that insert the same rows in different orders can deadlock.
  const sorted = [...deliveries].sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))
  const at = new Date(now)
  const { rows } = await sql<{ delivery_id: string }>`
    INSERT INTO deliveries (delivery_id, endpoint_id, source, kind, body, requested, status, created_at, due_at)
    SELECT
      new.delivery_id, endpoint_id, new.source, new.kind, new.body, new.requested,
      CASE WHEN is_sent THEN 'pending' ELSE 'failed' END, ${at}::timestamptz, CASE WHEN is_sent THEN ${at}::timestamptz END
    FROM unnest(
      ${sorted.map(() => newId('dlv'))}::text[],
      ${sorted.map(({ endpointId }) => endpointId)}::text[],
      ${sorted.map(({ source }) => source)}::text[],
      ${sorted.map(({ kind }) => kind)}::text[],
      ${sorted.map(({ body }) => Buffer.from(body))}::bytea[],
      ${sorted.map(({ requested = false }) => requested)}::boolean[]
    ) AS new (delivery_id, endpoint_id, source, kind, body, requested)
    JOIN endpoints USING (endpoint_id)
    CROSS JOIN LATERAL (SELECT new.requested OR ${isNotDisabled} AS is_sent) AS choice
    WHERE active OR new.requested
    FOR KEY SHARE OF endpoints
    ON CONFLICT (source, endpoint_id) DO NOTHING
    RETURNING delivery_id`.execute(transaction)
  return rows.map(({ delivery_id }) => delivery_id)
}

/**
 * Queues a delivery that is not sent: it is stored as `failed`, and its only attempt says why. `now` is Unix ms.
 */
export async function queueFailed(transaction: Db, delivery: NewDelivery, error: string, now: number): Promise<void> {
  const ids = await queueDeliveries(transaction, [delivery], now)
  const at = new Date(now)
  for (const id of ids) {
    await transaction
      .updateTable('deliveries')
      .set({ status: 'failed', due_at: null, attempts: 1 })
      .where('delivery_id', '=', id)
      .execute()
    await transaction
      .insertInto('attempts')
      .values({ delivery_id: id, n: 1, at, status: null, latency_ms: 0, response: null, error })
      .execute()
  }
}

function sortKey({ endpointId, source }: NewDelivery): string {
  return `${endpointId} ${source}`
}

/** The bytes of a delivery, which are stored once and sent in every attempt. */
export function encodeBody(body: DeliveryBody): Buffer {
  return Buffer.from(JSON.stringify(body))
}

/** A message for the webhooks of a site. */
export interface WebhookNotice {
  siteId: string
  /** `all`: the webhooks of both environments. */
  environment: Environment | 'all'
  kind: DeliveryKind
  source: string
  body: Uint8Array
  /** Unix ms. */
  now: number
}

/**
 * Queues one delivery for each active webhook of the site that takes `kind`. If several webhooks have the same URL,
 * only one gets it: the oldest that is not disabled, whose secret signs the delivery. Returns the fingerprints of the
 * targets that get it. Targets whose webhooks are all disabled are not included, because their deliveries are only
 * stored for a later recovery; nor are targets that another transaction is deleting.
 */
export async function queueForWebhooks(transaction: Db, notice: WebhookNotice): Promise<Buffer[]> {
  const { siteId, environment, kind, source, body, now } = notice
  const { rows } = await sql<{ endpoint_id: string; target_fingerprint: Buffer; is_disabled: boolean }>`
    SELECT DISTINCT ON (target_fingerprint) endpoint_id, target_fingerprint, disabled_at IS NOT NULL AS is_disabled
    FROM (
      SELECT * FROM endpoints
      WHERE site_id = ${siteId} AND owner = 'webhook' AND active AND ${kind} = ANY (events)
        AND ${environment} IN ('all', environment)
      FOR KEY SHARE
    ) AS locked
    ORDER BY target_fingerprint, disabled_at IS NOT NULL, seq`.execute(transaction)
  const deliveries = rows.map(({ endpoint_id }) => ({ endpointId: endpoint_id, source, kind, body }))
  await queueDeliveries(transaction, deliveries, now)
  return rows.filter(({ is_disabled }) => !is_disabled).map(({ target_fingerprint }) => target_fingerprint)
}
