import { generateKey, hashKey, keyEnvironment, keyHint } from '@sluice/contracts/api-key'
import { limitMax } from '@sluice/contracts/limits'
import { ulid } from 'ulid'
import type { KeyStore } from './keys.ts'

/** Whoever administers an installation is not held up by the limits of an application (contract section 2). */
const rateLimits = { events_per_minute: limitMax, queries_per_minute: limitMax, admin_per_minute: limitMax }

/**
 * Stores an admin key that no other key made: SLUICE_ADMIN_KEY, a first start's, or `npm run admin-key`'s. Returns it
 * with its id; undefined when this very key is stored already.
 */
export async function createAdminKey(
  keys: Pick<KeyStore, 'create'>,
  key: string = generateKey('prod'),
): Promise<{ key: string; keyId: string } | undefined> {
  const record = await keys.create(
    {
      keyId: `key_${ulid()}`,
      name: 'admin',
      environment: keyEnvironment(key) ?? 'prod',
      scopes: ['admin'],
      siteIds: null,
      rateLimits,
      hash: hashKey(key),
      hint: keyHint(key),
      expiresAt: null,
      bootstrap: true,
    },
    null,
  )
  return record && { key, keyId: record.keyId }
}
