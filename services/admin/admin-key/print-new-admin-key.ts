import { replaceAdminKey } from '@sluice/postgres/admin-key'
import { isMigrated, migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'
import { internalMessage } from '@sluice/runtime/errors'

/** What `--help` says about `npm run admin-key`, on servers and with the embedded Postgres. */
export const adminKeyUsage = 'npm run admin-key   (replaces the admin key: the former one stops working)'

/**
 * Brings the schema up to date, stores a new admin key and revokes the admin keys that no other key created
 * (docs/http-interface.md#first-admin-key). Prints the key to standard output, and returns a note for the operator with
 * `place`, which names the Postgres, and the number of revoked keys. Throws AppError `unavailable` while Postgres is
 * unavailable. Throws an Error when the key could not be printed: the key is valid nevertheless, and nothing can show
 * it again.
 */
export async function printNewAdminKey(postgres: Postgres, place: string): Promise<string> {
  // A reshard holds the lock for hours, and replacing a leaked key can't wait for it.
  if (!(await isMigrated(postgres))) await withMigrationLock(postgres, () => migratePostgres(postgres))
  const { key, revoked } = await replaceAdminKey(postgres)
  try {
    await printLine(key)
  } catch (error) {
    throw new Error(
      `The admin key was replaced, but the new one could not be printed: ${internalMessage(error)}. Run the command again, which replaces it.`,
      { cause: error },
    )
  }
  const note = `This admin key of the Postgres ${place} is not shown again.`
  if (revoked === 0) return note
  return `${note} It replaces ${revoked === 1 ? '1 earlier admin key, which is' : `${revoked} earlier admin keys, which are`} now revoked.`
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
