import type { Access } from '@sluice/access/access'
import { sealedIdempotency } from '@sluice/access/sealed-idempotency'
import type { SecretBox } from '@sluice/runtime/secret-box'

/**
 * What the checks before the handlers of this service need: the keys, and the stores of Redis. Redis holds no response
 * in plain text, because responses may hold URLs of webhooks.
 */
export function queryAccess(keys: Access['keys'], redis: Omit<Access, 'keys'>, secrets: SecretBox): Access {
  const { limiter, sessions, idempotency } = redis
  return { keys, limiter, sessions, idempotency: sealedIdempotency(idempotency, secrets) }
}
