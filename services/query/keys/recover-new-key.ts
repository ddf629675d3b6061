import type { KeyRecord, KeyStore } from '@sluice/access/keys'
import { isRetryable } from '@sluice/runtime/errors'
import { retry } from '@sluice/runtime/retry'

/** A failover of Postgres may take this long, in ms. */
const lookUpMs = 5_000

/**
 * Returns the record of a new key although storing it failed with `error`: the connection may have broken after Postgres
 * had committed, and then the key, which only this process knows, is stored. Looks for it for some seconds while
 * Postgres is away. Throws `error` when the key is not stored.
 */
export async function recoverNewKey(
  keys: Pick<KeyStore, 'findByHash'>,
  hash: string | undefined,
  error: unknown,
): Promise<KeyRecord> {
  if (hash === undefined || !isRetryable(error)) throw error
  const isPermanent = (failure: unknown): boolean => !isRetryable(failure)
  const stored = await retry(() => keys.findByHash(hash), { timeoutMs: lookUpMs, isPermanent })
  if (!stored) throw error
  return stored
}
