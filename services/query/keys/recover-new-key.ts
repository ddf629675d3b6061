import type { KeyRecord, KeyStore } from '@sluice/access/keys'
import { isRetryable } from '@sluice/runtime/errors'
import { retry } from '@sluice/runtime/retry'

/** A failover of Postgres may take this long, in ms. */
const lookUpMs = 5_000

/**
 * Returns the record of a new key although storing it failed with `error`: the connection may have broken after
 * Postgres had committed, and then the key, which only this process knows, is stored. `find` returns the stored record;
 * it is called for some seconds while Postgres is away. Throws `error` when the key is not stored, and what `find`
 * throws last when that stays unknown.
 */
export async function recoverNewKey(find: () => Promise<KeyRecord | undefined>, error: unknown): Promise<KeyRecord> {
  if (!isRetryable(error)) throw error
  const stored = await retry(find, { timeoutMs: lookUpMs, isPermanent: (failure) => !isRetryable(failure) })
  if (!stored) throw error
  return stored
}

/**
 * Stores a new key as `keys.create` does, and again when the outcome of the first attempt is unknown: the index of the
 * hashes makes the second one wait for a transaction that is still to commit, and refuses the key when it is stored.
 */
export async function createWithRecovery(
  keys: Pick<KeyStore, 'create' | 'findByHash'>,
  ...[key, makerId]: Parameters<KeyStore['create']>
): Promise<KeyRecord | undefined> {
  const create = () => keys.create(key, makerId)
  const again = async () => (await create()) ?? keys.findByHash(key.hash)
  return create().catch((error: unknown) => recoverNewKey(again, error))
}
