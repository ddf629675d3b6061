import type { KeyRecord, KeyStore } from '@sluice/access/keys'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'

/**
 * Stores a new key as `keys.create` does, and tries again when the outcome of the first attempt is unknown. The unique
 * index of the hashes makes the second attempt wait for a first transaction that may still commit. It refuses the key
 * when the key is stored.
 */
export async function createWithRecovery(
  keys: Pick<KeyStore, 'create' | 'findByHash'>,
  ...[key, makerId]: Parameters<KeyStore['create']>
): Promise<KeyRecord | undefined> {
  const create = () => keys.create(key, makerId)
  const again = async () => (await create()) ?? keys.findByHash(key.hash)
  return retryUnknownOutcome(create, again)
}
