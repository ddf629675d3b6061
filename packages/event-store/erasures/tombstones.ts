import type { ErasureKind } from '@sluice/contracts/erasures'

/**
 * The kinds of tombstones. An erasure of the kind `before` has a tombstone of its site that concerns earlier timestamps
 * only.
 */
export type TombstoneKind = Exclude<ErasureKind, 'before'>

/** SQL of the key of a tombstone (migrations/008-erasures.sql). */
export function tombstoneKeySql(kind: TombstoneKind, siteId: string, value: string): string {
  return `sipHash128('${kind}', ${siteId}, ${value})`
}

/**
 * The code with which a statement that does not compare tombstones fails when a tombstone may apply. ClickHouse itself
 * does not use it.
 */
export const tombstoneAppliesCode = 31_000

/** SQL of a condition that fails with `tombstoneAppliesCode` when a tombstone may concern the rows of `b`. */
export function noTombstoneApplies(receivedAt: string): string {
  return `throwIf(
        (SELECT count() FROM erasures WHERE applies_until >= (SELECT min(${receivedAt}) FROM b)) > 0,
        'a tombstone may apply', toInt16(${tombstoneAppliesCode})) = 0`
}

/**
 * SQL of the tombstones that may concern the rows of `b`, as a tuple of arrays: the sites, the keys, and for each key
 * its `requested_at:before`, separated by spaces. Tombstones of completed erasures are selected only if the erasure was
 * requested after a row of the batch was received.
 */
export function tombstonesSql(receivedAt: string): string {
  return `(
    SELECT (groupUniqArray(site_id), groupArray(key), groupArray(bounds)) FROM
    (
        SELECT site_id, key, arrayStringConcat(groupUniqArray(concat(requested_at, ':', before)), ' ') AS bounds
        FROM erasures WHERE applies_until >= (SELECT min(${receivedAt}) FROM b)
        GROUP BY site_id, key
    )
)`
}

/**
 * SQL that is true for a row that no tombstone of `tombstones` erases. `receivedAt` and `timestamp` are SQL of Unix ms.
 * Keys are hashed only for rows of sites with tombstones.
 */
export function isNotErased(
  kinds: readonly TombstoneKind[],
  { receivedAt, timestamp }: { receivedAt: string; timestamp: string },
): string {
  const bounds = kinds
    .map((kind) => tombstoneKeySql(kind, 'site_id', kind === 'site' ? "''" : kind))
    .map((key) => `transform(${key}, tombstones.2, tombstones.3, '')`)
  return `NOT if(
        has(tombstones.1, site_id),
        arrayExists(
            bound -> ${receivedAt} <= toInt64OrZero(splitByChar(':', bound)[1])
              AND ${timestamp} < toInt64OrZero(splitByChar(':', bound)[2]),
            splitByChar(' ', concat(${bounds.join(", ' ', ")}))),
        false)`
}
