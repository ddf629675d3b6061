import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { type Environment, type Scope, scopes } from '@sluice/contracts/scopes'
import type { ApiRequest, HandlerResult, Route } from '@sluice/http/route'
import { capturedLogger } from './captured-logger.ts'
import { keysInMemory, request, startTestService, type TestService } from './test-service.ts'

export interface RequestParts {
  method?: string
  /** The writer's by default; none: ''. */
  key?: string
  headers?: Record<string, string>
  body?: string
}

/** A service with routes of every kind, whose handler a test replaces. */
export interface TestRoutes {
  readonly service: TestService
  /** Keys: a writer, a writer of `dev`, a reader, an admin, and three that are refused. */
  readonly keys: Readonly<Record<'key' | 'devKey' | 'reader' | 'admin' | 'revoked' | 'expired' | 'unknown', string>>
  /** Handles the requests of every route; answers 200 at the start of each test. */
  handle: (request: ApiRequest) => Promise<HandlerResult>
  /** The request that the handler received last. */
  lastRequest: ApiRequest | undefined
  sendRequest: (path: string, parts?: RequestParts) => ReturnType<typeof request>
  /** POST /things, of JSON. */
  post: (parts?: RequestParts) => ReturnType<typeof request>
}

/** Runs the service for the tests of a file; to be called at its beginning. */
export function useTestRoutes(): TestRoutes {
  const keys = {
    key: generateKey('prod'),
    devKey: generateKey('dev'),
    reader: generateKey('prod'),
    admin: generateKey('prod'),
    revoked: generateKey('prod'),
    expired: generateKey('prod'),
    unknown: generateKey('prod'),
  }
  let service: TestService | undefined
  const testRoutes: TestRoutes = {
    get service() {
      if (service === undefined) throw new Error('the service runs within tests')
      return service
    },
    keys,
    handle: () => Promise.resolve({ status: 200 }),
    lastRequest: undefined,
    sendRequest: (path, { method = 'GET', key = keys.key, headers = {}, body } = {}) =>
      request(`${testRoutes.service.url}${path}`, {
        method,
        headers: { ...(key === '' ? {} : { Authorization: `Bearer ${key}` }), ...headers },
        ...(body === undefined ? {} : { body }),
      }),
    post: (parts = {}) =>
      testRoutes.sendRequest('/things', {
        method: 'POST',
        body: '{}',
        ...parts,
        headers: { 'Content-Type': 'application/json', ...parts.headers },
      }),
  }

  beforeAll(async () => {
    const writes: Scope[] = ['events:write']
    const records = {
      [keys.key]: { keyId: 'key_writer', scopes: writes },
      [keys.devKey]: { keyId: 'key_dev', scopes: writes, environment: 'dev' as Environment },
      [keys.reader]: { keyId: 'key_reader', scopes: ['stats:read'] as Scope[] },
      [keys.admin]: { keyId: 'key_admin', scopes: ['admin'] as Scope[] },
      [keys.revoked]: { scopes: writes, revokedAt: Date.now() - 1 },
      [keys.expired]: { scopes: writes, expiresAt: Date.now() - 1 },
    }
    service = await startTestService({ routes: routesOf(testRoutes) }, keysInMemory(records), capturedLogger())
  })

  afterAll(async () => {
    await service?.stop()
  })

  beforeEach(() => {
    testRoutes.lastRequest = undefined
    testRoutes.handle = () => Promise.resolve({ status: 200 })
  })
  return testRoutes
}

function routesOf(testRoutes: TestRoutes): Route[] {
  const common = {
    limit: 'events',
    handle: (received: ApiRequest) => {
      testRoutes.lastRequest = received
      return testRoutes.handle(received)
    },
  } as const
  return [
    {
      ...common,
      method: 'POST',
      path: '/things',
      scope: 'events:write',
      body: { kind: 'bytes', types: ['application/json', 'application/x-ndjson'], maxBytes: 100 },
    },
    { ...common, method: 'GET', path: '/things/:id', scope: 'events:write' },
    { ...common, method: 'DELETE', path: '/things/:id', scope: 'events:write' },
    { ...common, method: 'GET', path: '/quiet', scope: 'events:write', quiet: true },
    { ...common, method: 'GET', path: '/things/:id/parts/:part', scope: 'events:write' },
    ...scopes.map((scope): Route => ({ ...common, method: 'GET', path: `/scope/${scope.replace(':', '-')}`, scope })),
  ]
}
