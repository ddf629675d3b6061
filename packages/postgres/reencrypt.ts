import { type RawBuilder, sql } from 'kysely'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import { encryptTarget } from './endpoints.ts'
import type { Postgres } from './open.ts'
import type { Db } from './tables.ts'

const startsWith = (column: RawBuilder<unknown>, prefix: Buffer) =>
  sql`substring(${column} FROM 1 FOR ${prefix.length}::int) = ${prefix}`

/**
 * Encrypts again what is stored with the previous key. The endpoints of a site are changed in one transaction, so that
 * endpoints with the same URL have the same fingerprint at all times. Returns the number of changed endpoints. Any
 * number of processes may run it concurrently.
 */
export async function reencryptEndpoints(postgres: Postgres, secrets: SecretCipher): Promise<number> {
  const { previous } = secrets.prefixes
  if (previous === undefined) return 0
  const { rows } = await postgres.run((db) =>
    sql<{ siteId: string }>`
      SELECT DISTINCT site_id AS "siteId" FROM endpoints
      WHERE ${startsWith(sql`target_box`, previous)} OR ${startsWith(sql`secret_box`, previous)}
        OR ${startsWith(sql`previous_secret_box`, previous)}`.execute(db),
  )
  let reencrypted = 0
  for (const { siteId } of rows) {
    reencrypted += await postgres.transaction((transaction) =>
      reencryptSite(transaction, { siteId, secrets, previous }),
    )
  }
  return reencrypted
}

async function reencryptSite(
  db: Db,
  { siteId, secrets, previous }: { siteId: string; secrets: SecretCipher; previous: Buffer },
): Promise<number> {
  const decryptPrevious = (ciphertext: Buffer | null): string | undefined =>
    ciphertext?.subarray(0, previous.length).equals(previous) === true ? secrets.tryDecrypt(ciphertext) : undefined
  const endpoints = await db
    .selectFrom('endpoints')
    .select(['endpoint_id', 'channel', 'target_box', 'secret_box', 'previous_secret_box'])
    .where('site_id', '=', siteId)
    // In one order, because workers that lock the same rows in different orders can deadlock.
    .orderBy('endpoint_id')
    .forNoKeyUpdate()
    .execute()
  let reencrypted = 0
  for (const { endpoint_id, channel, target_box, secret_box, previous_secret_box } of endpoints) {
    const target = decryptPrevious(target_box)
    const secret = decryptPrevious(secret_box)
    const previousSecret = decryptPrevious(previous_secret_box)
    if (target === undefined && secret === undefined && previousSecret === undefined) continue
    const reencryptedTarget = target === undefined ? undefined : encryptTarget(secrets, channel, target)
    await db
      .updateTable('endpoints')
      .set({
        target_box: reencryptedTarget?.encryptedTarget,
        target_fingerprint: reencryptedTarget?.targetFingerprint,
        secret_box: secret === undefined ? undefined : secrets.encrypt(secret),
        previous_secret_box: previousSecret === undefined ? undefined : secrets.encrypt(previousSecret),
      })
      .where('endpoint_id', '=', endpoint_id)
      .execute()
    reencrypted += 1
  }
  return reencrypted
}

/** The number of endpoints whose URL or used secret was not stored with the current key. */
export async function countOtherKey(postgres: Postgres, { prefixes }: Pick<SecretCipher, 'prefixes'>): Promise<number> {
  const { current } = prefixes
  // A column that is null does not count.
  const usedPreviousSecret = sql`CASE WHEN previous_secret_until > now() THEN previous_secret_box END`
  return postgres.run(async (db) => {
    const { rows } = await sql<{ endpoints: number }>`
      SELECT count(*)::int AS endpoints FROM endpoints
      WHERE NOT ${startsWith(sql`target_box`, current)} OR NOT ${startsWith(sql`secret_box`, current)}
        OR NOT ${startsWith(usedPreviousSecret, current)}`.execute(db)
    return rows[0]?.endpoints ?? 0
  })
}
