import type { Credential } from '@sluice/access/credential'
import type { KeyStore } from '@sluice/access/keys'
import type { SiteRecord } from '@sluice/access/sites'
import { statusOf } from '@sluice/api/error-status'
import { type OperationId, operations } from '@sluice/api/operations'
import type { Criteria } from '@sluice/contracts/conditions'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { ApiRequest, HandlerResult } from '@sluice/http/route'
import type { CohortStore } from '@sluice/postgres/cohorts'
import { type QueryDeps, queryRoutes } from '@sluice/query/router'
import { siteLookup } from '@sluice/query/sites/site-lookup'
import { AppError } from '@sluice/runtime/errors'
import { exactClock } from '../support/clock.ts'
import { recordingClickHouse, type Replies, type SentStatement } from './recording-clickhouse.ts'

/** The time of receipt of every request: a Wednesday, within a quarter of an hour. */
export const receivedAt = Date.UTC(2024, 4, 15, 12, 34, 56, 789)

const credential: Credential = {
  keyId: 'key_golden',
  name: 'test',
  environment: 'prod',
  scopes: ['admin'],
  siteIds: null,
  rateLimits: null,
  allowedOrigins: null,
  expiresAt: null,
}

export interface OperationRequest {
  query?: Readonly<Record<string, string>>
  body?: unknown
  params?: Readonly<Record<string, string>>
  /** The time zone of the site, by default UTC. */
  timezone?: string
  conversionEvent?: string
  /** Registered sites, by default only `site-1`. */
  siteIds?: readonly string[]
  /** The criteria of the one cohort, which every id names. */
  criteria?: Criteria
  replies?: Replies
}

export interface OperationOutcome {
  /** The statements that were sent to ClickHouse, in order. */
  sent: readonly SentStatement[]
  result: HandlerResult | undefined
  error: unknown
}

/** Runs an operation of the query service as its routes bind it, with a ClickHouse that records statements. */
export async function runOperation(id: OperationId, request: OperationRequest): Promise<OperationOutcome> {
  const clickHouse = recordingClickHouse(request.replies)
  const { method, path } = operations[id]
  const route = routesOn(request, clickHouse).find((each) => each.method === method && each.path === path)
  if (!route) throw new Error(`no route for ${id}`)
  try {
    return { sent: clickHouse.sent, result: await route.handle(requestOf(request)), error: undefined }
  } catch (error) {
    return { sent: clickHouse.sent, result: undefined, error }
  }
}

/** The status and the text of an error, as a client reads them. Throws any error that is not part of the interface. */
export function refusalText(error: unknown): string {
  if (!(error instanceof AppError)) throw error
  return `${statusOf[error.code]} ${error.message}`
}

function requestOf({ query = {}, body, params = {} }: OperationRequest): ApiRequest {
  return {
    requestId: 'request-golden',
    receivedAt,
    accept: '',
    client: { address: '192.0.2.1', isSecure: false, host: 'sluice.example' },
    params,
    query,
    body: { bytes: Buffer.from(body === undefined ? '' : JSON.stringify(body)), type: 'application/json' },
    releaseBody: () => undefined,
    signal: new AbortController().signal,
    log: () => undefined,
    credential,
    session: undefined,
    consume: () => undefined,
  }
}

function routesOn(
  { timezone = 'UTC', conversionEvent, siteIds = ['site-1'], criteria }: OperationRequest,
  clickHouse: ReturnType<typeof recordingClickHouse>,
) {
  const recordOf = (siteId: string): SiteRecord => ({
    siteId,
    settings: { name: siteId, timezone, conversion_event: conversionEvent ?? null, retention_days: null },
    createdAt: 0,
  })
  const registered = new Set(siteIds)
  const sites = {
    find: (siteId: string) => Promise.resolve(registered.has(siteId) ? recordOf(siteId) : undefined),
    list: () => Promise.resolve({ sites: siteIds.map(recordOf), total: siteIds.length }),
    register: (ids: readonly string[]) => {
      for (const id of ids) registered.add(id)
      return Promise.resolve()
    },
    registerFor: () => unused('registerFor'),
    create: () => unused('create'),
    findCreated: () => unused('findCreated'),
    update: () => unused('update'),
    findRegistered: () => unused('findRegistered'),
    listRetention: () => Promise.resolve([]),
    changedSince: () => unused('changedSince'),
  }
  const cohort = criteria && {
    cohortId: 'coh_golden',
    siteId: 'site-1',
    settings: { name: 'golden', description: null, criteria },
    createdAt: 0,
    updatedAt: 0,
  }
  const eventReader = queryReader(clickHouse)
  // No golden test runs an operation on keys, sessions, imports, exports or webhooks: they have no stores.
  return queryRoutes({
    eventReader,
    sites: siteLookup({ ...sites, siteDeletedAt: () => Promise.resolve(undefined) }, eventReader, {
      autoRegister: true,
    }),
    siteStore: sites,
    keys: {} as KeyStore,
    cohorts: { ...({} as CohortStore), find: () => Promise.resolve(cohort) },
    erasures: {} as QueryDeps['erasures'],
    imports: {} as QueryDeps['imports'],
    exports: {} as QueryDeps['exports'],
    blobs: {} as QueryDeps['blobs'],
    webhooks: {} as QueryDeps['webhooks'],
    alertRules: {} as QueryDeps['alertRules'],
    canSendEmail: false,
    secrets: {} as QueryDeps['secrets'],
    checkTarget: () => unused('checkTarget'),
    clock: exactClock,
    keyCache: {} as QueryDeps['keyCache'],
    sessions: {} as QueryDeps['sessions'],
    signInCodes: {} as QueryDeps['signInCodes'],
    limiter: {} as QueryDeps['limiter'],
    collectUrl: undefined,
    readCompleteUntil: () => receivedAt - 1_000,
  })
}

function unused(name: string): never {
  throw new Error(`no golden test asks for ${name}`)
}
