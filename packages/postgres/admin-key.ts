import { generateKey, hashKey, keyEnvironment, keyHint } from '@sluice/access/api-key'
import type { KeyStore } from '@sluice/access/keys'
import { limitMax } from '@sluice/contracts/rate-limits'
import { internalMessage } from '@sluice/runtime/errors'
import { newId } from '@sluice/runtime/ids'
import { keyStore } from './keys.ts'
import { isMigrated, migratePostgres, withMigrationLock } from './migrate.ts'
import type { Postgres } from './open.ts'

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
 * Brings the schema up to date, stores a new admin key and revokes the admin keys that no other key created
 * (docs/http-interface.md#first-admin-key). Prints the key to standard output, and returns a sentence for the operator
 * with the number of revoked keys. Throws AppError 503 while Postgres is unavailable. Throws an Error when the key
 * could not be printed: the key is valid nevertheless, and nothing can show it again.
 */
export async function printNewAdminKey(postgres: Postgres): Promise<string> {
  const { key, note } = await replaceAdminKey(postgres)
  try {
    await printLine(key)
  } catch (error) {
    throw new Error(
      `The admin key was replaced, but the new one could not be printed: ${internalMessage(error)}. Run the command again, which replaces it.`,
      { cause: error },
    )
  }
  return note
}

/** Rejects when the line can't be written; console.log would ignore that. */
async function printLine(text: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  // The stream also emits the error. Without a listener, the process would end without a message about the key.
  process.stdout.on('error', reject)
  process.stdout.write(`${text}\n`, (error) => {
    if (error) reject(error)
    else resolve(undefined)
  })
  await promise
}

async function replaceAdminKey(postgres: Postgres): Promise<{ key: string; note: string }> {
  // A reshard holds the lock for hours, and replacing a leaked key can't wait for it.
  if (!(await isMigrated(postgres))) await withMigrationLock(postgres, () => migratePostgres(postgres))
  const keys = keyStore(postgres)
  const created = await createAdminKey(keys)
  if (!created) throw new Error('a new key has the hash of an old one')
  const revoked = await keys.revokeBootstrapKeysExcept(created.keyId)
  const note = 'This admin key is not shown again.'
  return { key: created.key, note: revoked === 0 ? note : `${note} Revoked before it: ${revoked}.` }
}
