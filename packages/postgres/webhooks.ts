import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Page } from '@sluice/contracts/paging'
import type { SiteIds } from '@sluice/contracts/scopes'
import { type DeliveryKind, type DeliveryStatus, webhookLimits } from '@sluice/contracts/webhooks'
import { takeAdvisoryLock } from './advisory-lock.ts'
import { requireBelowLimit } from './count-rows.ts'
import { queueDeliveries } from './deliveries.ts'
import {
  deleteEndpoint,
  deliveriesAtOnceMax,
  type Endpoint,
  type EndpointChanges,
  failWaitingDeliveries,
  insertEndpoint,
  type NewEndpoint,
  removeDeliveries,
  toEndpoint,
  updateEndpoint,
} from './endpoints.ts'
import type { Postgres } from './open.ts'
import { requirePageSize, selectPage } from './page.ts'
import { lockSite } from './sites.ts'
import type { Db, Tables } from './tables.ts'
import { visibleSiteCondition } from './visible-sites.ts'

/** The record of an attempt to deliver. */
export interface AttemptRecord {
  /** Unix ms. */
  at: number
  /** Status of the response; null without a response. */
  status: number | null
  latencyMs: number
  /** The beginning of the response's body. */
  response: string | null
  /** Null: the attempt succeeded. */
  error: string | null
}

/** The record of a delivery. */
export interface DeliveryRecord {
  deliveryId: string
  kind: DeliveryKind
  status: DeliveryStatus
  /** Unix ms. */
  createdAt: number
  /** Unix ms at which the next attempt is due; null when there is none. */
  dueAt: number | null
  /** The bytes that are sent; empty in lists. */
  body: Buffer
  /** Ascending. */
  attempts: AttemptRecord[]
}

/** Number of characters of each response that a list shows. */
const listedResponseLength = 200

/**
 * Webhooks and their deliveries in Postgres. Webhooks of sites that are not in `siteIds` are treated as absent. Times
 * `at` are Unix ms of the caller's clock. Every method throws AppError `unavailable` while Postgres is unavailable.
 */
export interface WebhookStore {
  /**
   * If a webhook with this id is stored already, returns that webhook. Throws AppError `conflict` when the site has the
   * maximum number of webhooks (`webhookLimits`), and `not_found` when the site has been deleted.
   */
  create(endpoint: NewEndpoint, at: number): Promise<Endpoint>
  find(webhookId: string, siteIds: SiteIds): Promise<Endpoint | undefined>
  /** Lists the webhooks of one site, newest first; `total` counts all of them. */
  list(siteId: string, page: Page): Promise<{ webhooks: Endpoint[]; total: number }>
  /** Applies the changes that `change` returns for the present record; undefined where `find` returns undefined. */
  update(
    webhookId: string,
    siteIds: SiteIds,
    change: (found: Endpoint) => EndpointChanges,
    at: number,
  ): Promise<Endpoint | undefined>
  /**
   * Removes first its deliveries, then the webhook; false where `find` returns undefined. After a failure, the webhook may
   * have lost some deliveries.
   */
  delete(webhookId: string, siteIds: SiteIds): Promise<boolean>
  /**
   * Queues a delivery that a user requested. Returns its id, even if it is queued already. Undefined when there is no
   * such webhook.
   */
  queueRequested(
    delivery: { webhookId: string; source: string; kind: DeliveryKind; body: Uint8Array },
    at: number,
  ): Promise<string | undefined>
  /**
   * Lists the deliveries of a webhook, newest first, with the beginning of each response. Throws AppError
   * `invalid_field` for a page whose attempts are too large in total.
   */
  listDeliveries(
    webhookId: string,
    status: DeliveryStatus | undefined,
    page: Page,
  ): Promise<{ deliveries: DeliveryRecord[]; total: number }>
  findDelivery(webhookId: string, deliveryId: string): Promise<DeliveryRecord | undefined>
  /** Sends a delivery of any status again at once, with a new schedule. False when there is no such delivery. */
  replay(webhookId: string, deliveryId: string, at: number): Promise<boolean>
  /**
   * Sends the deliveries again at once that were queued at `since` or later and have not succeeded. Returns their
   * number.
   */
  recover(webhookId: string, since: number, at: number): Promise<number>
}

/** The webhooks of this Postgres, with their deliveries. */
export function webhookStore(postgres: Postgres): WebhookStore {
  return {
    create: (endpoint, at) =>
      postgres.transaction(async (transaction) => {
        const { siteId } = endpoint
        await lockSite(transaction, siteId)
        // Without the lock, two concurrent creations would both count the webhooks before either is stored.
        await takeAdvisoryLock(transaction, 'webhook', siteId)
        const stored = await find(transaction, endpoint.endpointId, null)
        if (stored) return stored
        await requireBelowLimit(webhooksOf(transaction, siteId), webhookLimits.webhooksPerSiteMax, 'webhooks')
        return insertEndpoint(transaction, endpoint, at)
      }),
    find: (webhookId, siteIds) => postgres.run((db) => find(db, webhookId, siteIds)),
    list: (siteId, page) =>
      postgres.run(async (db) => {
        const newestFirst = webhooksOf(db, siteId).selectAll().orderBy('seq', 'desc')
        const { rows, total } = await selectPage(newestFirst, page)
        return { webhooks: rows.map(toEndpoint), total }
      }),
    update: async (webhookId, siteIds, change, at) => {
      // Some deliveries of a long queue may still wait from the time before the webhook was disabled.
      await failWaitingIfOff(postgres, webhookId, at)
      const updated = await postgres.transaction(async (transaction) => {
        const found = await find(transaction, webhookId, siteIds, sql`FOR NO KEY UPDATE`)
        return found && updateEndpoint(transaction, webhookId, change(found), at)
      })
      await failWaitingIfOff(postgres, webhookId, at)
      return updated
    },
    delete: async (webhookId, siteIds) => {
      await removeDeliveries(postgres, isVisible(webhookId, siteIds))
      return postgres.transaction(async (transaction) => {
        const found = await find(transaction, webhookId, siteIds, sql`FOR UPDATE`)
        return found !== undefined && deleteEndpoint(transaction, webhookId)
      })
    },
    queueRequested: ({ webhookId, ...delivery }, at) =>
      postgres.run(async (db) => {
        const [id] = await queueDeliveries(db, [{ endpointId: webhookId, requested: true, ...delivery }], at)
        if (id !== undefined) return id
        const queued = await db
          .selectFrom('deliveries')
          .select('delivery_id')
          .where('source', '=', delivery.source)
          .where('endpoint_id', '=', webhookId)
          .executeTakeFirst()
        return queued?.delivery_id
      }),
    listDeliveries: (webhookId, status, { limit, offset }) =>
      postgres.run(async (db) => {
        const condition = sql`endpoint_id = ${webhookId} ${status === undefined ? sql`` : sql`AND status = ${status}`}`
        const { rows } = await sql<Omit<DeliveryRow, 'body'>>`
          SELECT delivery_id, kind, status, created_at, due_at FROM deliveries WHERE ${condition}
          ORDER BY created_at DESC, delivery_id DESC LIMIT ${limit} OFFSET ${offset}`.execute(db)
        const deliveryIds = rows.map(({ delivery_id }) => delivery_id)
        const attempt = attemptsOf(deliveryIds, sql`left(response, ${listedResponseLength})`)
        await requirePageSize(db, sql`SELECT to_json(attempt) AS document FROM (${attempt}) AS attempt`)
        const counted = await sql<{ total: string }>`
          SELECT count(*) AS total FROM deliveries WHERE ${condition}`.execute(db)
        const attempts = await readAttempts(db, attempt)
        const deliveries = rows.map((row) => toDelivery({ ...row, body: Buffer.alloc(0) }, attempts))
        return { deliveries, total: Number(counted.rows[0]?.total) }
      }),
    findDelivery: (webhookId, deliveryId) =>
      postgres.run(async (db) => {
        const row = await db
          .selectFrom('deliveries')
          .selectAll()
          .where('endpoint_id', '=', webhookId)
          .where('delivery_id', '=', deliveryId)
          .executeTakeFirst()
        return row && toDelivery(row, await readAttempts(db, attemptsOf([deliveryId], sql`response`)))
      }),
    replay: async (webhookId, deliveryId, at) =>
      (await requeueDeliveries(postgres, webhookId, sql`delivery_id = ${deliveryId}`, at)).length > 0,
    recover: (webhookId, since, at) => recover(postgres, webhookId, since, at),
  }
}

async function find(db: Db, webhookId: string, siteIds: SiteIds, lockClause = sql``): Promise<Endpoint | undefined> {
  const { rows } = await sql<Selectable<Tables['endpoints']>>`
    SELECT * FROM endpoints WHERE ${isVisible(webhookId, siteIds)} ${lockClause}`.execute(db)
  return rows[0] && toEndpoint(rows[0])
}

/** Fails the waiting deliveries of a webhook that is inactive or disabled, in several transactions. */
async function failWaitingIfOff(postgres: Postgres, webhookId: string, at: number): Promise<void> {
  const failSome = async (transaction: Db) => {
    const found = await find(transaction, webhookId, null, sql`FOR NO KEY UPDATE`)
    const isOff = found !== undefined && (!found.active || found.disabledAt !== null)
    return isOff ? failWaitingDeliveries(transaction, [webhookId], at) : 0
  }
  while ((await postgres.transaction(failSome)) === deliveriesAtOnceMax);
}

/** SQL of the condition that an endpoint is this webhook, if the caller may see it. */
function isVisible(webhookId: string, siteIds: SiteIds) {
  return sql`endpoint_id = ${webhookId} AND owner = 'webhook' AND ${visibleSiteCondition(siteIds)}`
}

function webhooksOf(db: Db, siteId: string) {
  return db.selectFrom('endpoints').where('site_id', '=', siteId).where('owner', '=', 'webhook')
}

/**
 * Makes deliveries of the webhook that meet `condition` due again, in the order of their creation, and
 * `deliveriesAtOnceMax` of them at most. A running attempt is not interrupted: its outcome determines how the delivery
 * continues. Returns the deliveries.
 */
async function requeueDeliveries(
  postgres: Postgres,
  webhookId: string,
  condition: ReturnType<typeof sql>,
  at: number,
): Promise<{ delivery_id: string; created_at: string }[]> {
  return postgres.transaction(async (transaction) => {
    // The endpoint first: what changes several of its deliveries locks it first.
    await find(transaction, webhookId, null, sql`FOR NO KEY UPDATE`)
    const { rows } = await sql<{ delivery_id: string; created_at: string }>`
      WITH chosen AS MATERIALIZED (
        SELECT delivery_id, created_at FROM deliveries WHERE endpoint_id = ${webhookId} AND ${condition}
        ORDER BY created_at, delivery_id LIMIT ${deliveriesAtOnceMax}
      ), sent AS (
        UPDATE deliveries SET status = 'pending', requested = true, tries = 0, due_at = ${new Date(at)}
        FROM chosen WHERE deliveries.delivery_id = chosen.delivery_id
      )
      SELECT delivery_id, created_at::text AS created_at FROM chosen
      ORDER BY chosen.created_at, delivery_id`.execute(transaction)
    return rows
  })
}

/** Sends the deliveries since `since` that have not succeeded again, in several transactions. */
async function recover(postgres: Postgres, webhookId: string, since: number, at: number): Promise<number> {
  let count = 0
  // A Date, because pg writes years after 9999 without a sign, while Postgres can't read the sign of `toISOString`.
  let after: { created_at: Date | string; delivery_id: string } = { created_at: new Date(since), delivery_id: '' }
  for (;;) {
    const isNext = sql`
      status <> 'succeeded' AND (created_at, delivery_id) > (${after.created_at}::timestamptz, ${after.delivery_id})`
    const sent = await requeueDeliveries(postgres, webhookId, isNext, at)
    count += sent.length
    const last = sent.at(-1)
    if (!last || sent.length < deliveriesAtOnceMax) return count
    after = last
  }
}

type DeliveryRow = Pick<
  Selectable<Tables['deliveries']>,
  'delivery_id' | 'kind' | 'status' | 'created_at' | 'due_at' | 'body'
>

const attemptsOf = (deliveryIds: readonly string[], response: RawBuilder<unknown>) =>
  sql<Selectable<Tables['attempts']>>`
    SELECT delivery_id, at, status, latency_ms, ${response} AS response, error FROM attempts
    WHERE delivery_id = ANY (${[...deliveryIds]}::text[]) ORDER BY n`

async function readAttempts(db: Db, attempt: ReturnType<typeof attemptsOf>): Promise<Map<string, AttemptRecord[]>> {
  const { rows } = await attempt.execute(db)
  const found = new Map<string, AttemptRecord[]>()
  for (const { delivery_id, at, status, latency_ms, response: text, error } of rows) {
    const attempts = found.get(delivery_id) ?? []
    attempts.push({ at: at.getTime(), status, latencyMs: latency_ms, response: text, error })
    found.set(delivery_id, attempts)
  }
  return found
}

function toDelivery(row: DeliveryRow, attempts: ReadonlyMap<string, AttemptRecord[]>): DeliveryRecord {
  return {
    deliveryId: row.delivery_id,
    kind: row.kind,
    status: row.status,
    createdAt: row.created_at.getTime(),
    dueAt: row.due_at?.getTime() ?? null,
    body: row.body,
    attempts: attempts.get(row.delivery_id) ?? [],
  }
}
