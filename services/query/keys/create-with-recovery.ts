import type { KeyRecord, KeyStore } from '@sluice/access/keys'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'

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
  return retryUnknownOutcome(create, again)
}
