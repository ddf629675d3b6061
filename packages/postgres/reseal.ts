import { type RawBuilder, sql } from 'kysely'
import type { SecretBox } from '@sluice/runtime/secret-box'
import { sealTarget } from './endpoints.ts'
import type { Postgres } from './open.ts'
import type { Db } from './tables.ts'

const startsWith = (box: RawBuilder<unknown>, prefix: Buffer) =>
  sql`substring(${box} FROM 1 FOR ${prefix.length}::int) = ${prefix}`

/**
 * Seals anew what is stored with the previous key, the endpoints of a site in one transaction, so that at every moment
 * those with one URL have one fingerprint. Returns how many were changed. Any number of processes may do so at once.
 */
export async function resealEndpoints(postgres: Postgres, secrets: SecretBox): Promise<number> {
  const { previous } = secrets.prefixes
  if (previous === undefined) return 0
  const { rows } = await postgres.run((db) =>
    sql<{ siteId: string }>`
      SELECT DISTINCT site_id AS "siteId" FROM endpoints
      WHERE ${startsWith(sql`target_box`, previous)} OR ${startsWith(sql`secret_box`, previous)}
        OR ${startsWith(sql`previous_secret_box`, previous)}`.execute(db),
  )
  let resealed = 0
  for (const { siteId } of rows) {
    resealed += await postgres.transaction((transaction) => resealSite(transaction, { siteId, secrets, previous }))
  }
  return resealed
}

async function resealSite(
  db: Db,
  { siteId, secrets, previous }: { siteId: string; secrets: SecretBox; previous: Buffer },
): Promise<number> {
  const openPrevious = (box: Buffer | null): string | undefined =>
    box?.subarray(0, previous.length).equals(previous) === true ? secrets.tryOpen(box) : undefined
  const endpoints = await db
    .selectFrom('endpoints')
    .select(['endpoint_id', 'channel', 'target_box', 'secret_box', 'previous_secret_box'])
    .where('site_id', '=', siteId)
    // In one order, because two workers that lock the same rows in different orders would deadlock.
    .orderBy('endpoint_id')
    .forNoKeyUpdate()
    .execute()
  let resealed = 0
  for (const { endpoint_id, channel, target_box, secret_box, previous_secret_box } of endpoints) {
    const target = openPrevious(target_box)
    const secret = openPrevious(secret_box)
    const previousSecret = openPrevious(previous_secret_box)
    if (target === undefined && secret === undefined && previousSecret === undefined) continue
    const resealedTarget = target === undefined ? undefined : sealTarget(secrets, channel, target)
    await db
      .updateTable('endpoints')
      .set({
        target_box: resealedTarget?.sealedTarget,
        target_fingerprint: resealedTarget?.targetFingerprint,
        secret_box: secret === undefined ? undefined : secrets.seal(secret),
        previous_secret_box: previousSecret === undefined ? undefined : secrets.seal(previousSecret),
      })
      .where('endpoint_id', '=', endpoint_id)
      .execute()
    resealed += 1
  }
  return resealed
}

/** How many endpoints have a URL or a secret that is in use and was not stored with the present key. */
export async function countOtherKey(postgres: Postgres, { prefixes }: Pick<SecretBox, 'prefixes'>): Promise<number> {
  const { current } = prefixes
  // A box that is null is none of another key.
  const usedPreviousBox = sql`CASE WHEN previous_secret_until > now() THEN previous_secret_box END`
  return postgres.run(async (db) => {
    const { rows } = await sql<{ endpoints: number }>`
      SELECT count(*)::int AS endpoints FROM endpoints
      WHERE NOT ${startsWith(sql`target_box`, current)} OR NOT ${startsWith(sql`secret_box`, current)}
        OR NOT ${startsWith(usedPreviousBox, current)}`.execute(db)
    return rows[0]?.endpoints ?? 0
  })
}
