import { invalidApiKey } from '@sluice/runtime/errors'
import type { IdempotencyStore } from './idempotency.ts'
import type { KeyCache } from './key-cache.ts'
import type { Limiter } from './limiter.ts'
import type { Sessions } from './sessions.ts'

/**
 * Dependencies of the checks before a handler: key-cache.ts implements `keys`, the adapters of packages/redis implement
 * the rest.
 */
export interface Access {
  keys: Pick<KeyCache, 'authenticate' | 'authenticateHash'>
  limiter: Limiter
  sessions: Pick<Sessions, 'find'>
  idempotency: IdempotencyStore
}

/** Rejects every credential with 401; for services that have no routes but `/healthz`, `/readyz` and the like. */
export const denyAll: Access = {
  keys: { authenticate: reject, authenticateHash: reject },
  limiter: { consume: reject, refund: reject, peek: reject },
  sessions: { find: reject },
  idempotency: { claim: reject, complete: reject, release: reject },
}

function reject(): never {
  throw invalidApiKey()
}
