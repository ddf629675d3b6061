import type { ApiRequest } from '@sluice/http/route'

/** A request as a handler gets it. By default it has a production key with all rights. */
export function apiRequest(parts: Partial<ApiRequest> = {}): ApiRequest {
  return {
    requestId: 'test',
    receivedAt: Date.now(),
    credential: {
      keyId: 'key_test',
      name: 'test',
      environment: 'prod',
      scopes: ['admin'],
      siteIds: null,
      rateLimits: null,
      allowedOrigins: null,
      expiresAt: null,
    },
    session: undefined,
    accept: '',
    client: { address: '127.0.0.1', isSecure: false, host: 'localhost' },
    consume: () => undefined,
    params: {},
    query: {},
    body: { bytes: Buffer.alloc(0), type: '' },
    signal: new AbortController().signal,
    releaseBody: () => undefined,
    log: () => undefined,
    ...parts,
  }
}
