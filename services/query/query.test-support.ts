import { generateKey, hashKey, keyHint } from '@sluice/contracts/api-key'
import type { Environment, Scope } from '@sluice/contracts/scopes'
import { type ClickHouse, openClickHouse } from '@sluice/clickhouse/client'
import { testClickHouse, type TestClickHouse } from '@sluice/engines/testing'
import { keyCache } from '@sluice/http/key-cache'
import type { Route } from '@sluice/http/route'
import { type Envelope, request, startTestService, type TestService } from '@sluice/http/testing'
import { type KeyStore, keyStore } from '@sluice/postgres/keys'
import { openTestPostgres, type TestPostgres } from '@sluice/postgres/testing'
import { createMetrics } from '@sluice/runtime/metrics'
import { capturedLogger } from '@sluice/runtime/testing'
import { buildQuery } from './build.ts'

export interface Asked {
  method?: string
  /** Sent as JSON, or as it is when it is a string. */
  body?: unknown
  key?: string
  headers?: Record<string, string>
}

export interface TestQuery {
  service: TestService
  routes: readonly Route[]
  postgres: TestPostgres
  clickHouse: TestClickHouse
  keys: KeyStore
  /** A production key that may do everything. */
  admin: string
  createKey: (parts: { scopes: readonly Scope[]; environment?: Environment }) => Promise<string>
  ask: (path: string, asked?: Asked) => Promise<{ status: number; headers: Headers; body: Envelope }>
  stop: () => Promise<void>
}

/** The query service on real engines, with the real HTTP server. Its ClickHouse database does not exist unless you migrate it. */
export async function startQuery(): Promise<TestQuery> {
  const captured = capturedLogger()
  const postgres = await openTestPostgres()
  const database = testClickHouse()
  const clickHouse: ClickHouse = openClickHouse(database.readerUrl)
  const keys = keyStore(postgres)
  const admin = generateKey('prod')
  const built = buildQuery(
    { SLUICE_ADMIN_KEY: admin },
    { clickHouse, postgres },
    { logger: captured.logger, metrics: createMetrics() },
  )
  const cache = keyCache(keys, captured.logger)
  const service = await startTestService({ ...built, components: [cache, ...built.components] }, cache, captured)
  let number = 0

  return {
    service,
    routes: built.routes,
    postgres,
    clickHouse: database,
    keys,
    admin,
    createKey: async ({ scopes, environment = 'prod' }) => {
      const key = generateKey(environment)
      await keys.create({
        keyId: `key_test_${number++}`,
        name: 'test',
        environment,
        scopes,
        hash: hashKey(key),
        hint: keyHint(key),
        expiresAt: null,
        bootstrap: false,
      })
      return key
    },
    ask: (path, { method = 'GET', body, key = admin, headers = {} } = {}) =>
      request(`${service.url}${path}`, {
        method,
        headers: {
          ...(key === '' ? {} : { Authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      }),
    stop: async () => {
      await service.stop()
      await clickHouse.close()
      await database.drop()
      await postgres.drop()
    },
  }
}
