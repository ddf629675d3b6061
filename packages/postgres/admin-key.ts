import { generateKey, hashKey, keyEnvironment, keyHint } from '@sluice/contracts/api-key'
import { ulid } from 'ulid'
import type { KeyStore } from './keys.ts'

/**
 * Stores an admin key that no other key made: SLUICE_ADMIN_KEY, a first start's, or `npm run admin-key`'s. Returns it
 * with its id; undefined when this very key is stored already.
 */
export async function createAdminKey(
  keys: Pick<KeyStore, 'create'>,
  key: string = generateKey('prod'),
): Promise<{ key: string; keyId: string } | undefined> {
  const record = await keys.create({
    keyId: `key_${ulid()}`,
    name: 'admin',
    environment: keyEnvironment(key) ?? 'prod',
    scopes: ['admin'],
    hash: hashKey(key),
    hint: keyHint(key),
    expiresAt: null,
    bootstrap: true,
  })
  return record && { key, keyId: record.keyId }
}
