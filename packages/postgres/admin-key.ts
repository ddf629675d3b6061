import { generateKey, hashKey, keyEnvironment, keyHint } from '@sluice/access/api-key'
import type { KeyStore } from '@sluice/access/keys'
import { limitMax } from '@sluice/contracts/rate-limits'
import { newId } from '@sluice/runtime/ids'
import { takeAdvisoryLock } from './advisory-lock.ts'
import { keyStore } from './keys.ts'
import type { Postgres } from './open.ts'
import { within } from './within.ts'

/**
 * The highest possible limits. The administrator must not be blocked by limits that are meant for an application
 * (docs/http-interface.md#first-admin-key).
 */
const rateLimits = { events_per_minute: limitMax, queries_per_minute: limitMax, admin_per_minute: limitMax }

/**
 * Stores an admin key that no other key created: SLUICE_ADMIN_KEY, the key of a first start, or the key of
 * `npm run admin-key`. Returns it with its id; undefined when the same key is stored already.
 */
export async function createAdminKey(
  keys: Pick<KeyStore, 'create'>,
  key: string = generateKey('prod'),
): Promise<{ key: string; keyId: string } | undefined> {
  const record = await keys.create(
    {
      keyId: newId('key'),
      name: 'admin',
      environment: keyEnvironment(key) ?? 'prod',
      scopes: ['admin'],
      siteIds: null,
      rateLimits,
      allowedOrigins: null,
      hash: hashKey(key),
      hint: keyHint(key),
      expiresAt: null,
      bootstrap: true,
    },
    null,
  )
  return record && { key, keyId: record.keyId }
}

/**
 * Stores a new admin key and revokes those that no other key created, in one transaction. Concurrent calls wait for each
 * other: the key of the last one stays. Returns the key and the number of revoked keys. Throws AppError `unavailable`
 * while Postgres is unavailable.
 */
export async function replaceAdminKey(postgres: Postgres): Promise<{ key: string; revoked: number }> {
  return postgres.transaction(async (transaction) => {
    await takeAdvisoryLock(transaction, 'adminKey', '')
    const keys = keyStore(within(postgres, transaction))
    const created = await createAdminKey(keys)
    if (!created) throw new Error('a new key has the hash of an old one')
    return { key: created.key, revoked: await keys.revokeBootstrapKeysExcept(created.keyId) }
  })
}
