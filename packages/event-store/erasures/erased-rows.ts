import type { ErasureKind } from '@sluice/contracts/erasures'
import type { QueryRunner, SqlFragment } from '../clickhouse/query-runner.ts'
import { timeSql } from '../time-sql.ts'
import { tombstoneKeySql, type TombstoneKind } from './tombstones.ts'

/** The rows that an erasure selects, without the value itself. */
export interface ErasedRows {
  erasureId: string
  siteId: string
  kind: ErasureKind
  /** Hashes of the value; null where the kind has none. */
  hashes: ValueHashes | null
  /** Unix ms, exclusive: the erasure selects earlier events. Only of the kind `before`; null for other kinds. */
  before: number | null
  /** Unix ms: the erasure selects rows that were received at that time or earlier. */
  requestedAt: number
}

/** The hashes by which the rows of a value are found. */
export interface ValueHashes {
  /** Hash of kind, site and value, 32 hexadecimal digits: the key of the tombstone. */
  key: string
  /**
   * The 64-bit key of the value in stored rows, as a decimal. ClickHouse finds the rows by it without reading their
   * texts.
   */
  rowKey: string
}

/** The columns that hold a value and its key. */
const keyColumns = {
  user_id: 'user_key',
  session_id: 'session_key',
  event_id: 'event_key',
} as const satisfies Partial<Record<ErasureKind, string>>

/** Hashes a value by the functions that hash the values of stored rows. Throws ClickHouseError. */
export async function hashValue(
  { kind, siteId, value }: { kind: keyof typeof keyColumns; siteId: string; value: string },
  runner: QueryRunner,
): Promise<ValueHashes> {
  const { rows } = await runner.query<ValueHashes>({
    sql: `SELECT lower(hex(${tombstoneKeySql(kind, '{site_id:String}', '{value:String}')})) AS key,
      toString(cityHash64({value:String})) AS rowKey`,
    params: { site_id: siteId, value },
  })
  const [hashes] = rows
  if (hashes === undefined) throw new Error('ClickHouse returned no hashes')
  return hashes
}

/** The largest Int64: the `before` of tombstones for all times. */
const anyTime = '9223372036854775807'

/** SQL of a tombstone's columns `site_id, key, requested_at, before`. The placeholders are those of `erasedEvents`. */
export function tombstoneSql({ kind, before }: Pick<ErasedRows, 'kind' | 'before'>): string {
  const key =
    kind === 'site' || kind === 'before' ? tombstoneKeySql('site', '{site_id:String}', "''") : 'unhex({key:String})'
  return `{site_id:String}, ${key}, {requested_at:Int64}, ${before === null ? anyTime : '{before:Int64}'}`
}

/** The stored events that an erasure selects. */
export function erasedEvents(erased: ErasedRows, suffix = ''): SqlFragment {
  return condition(erased, suffix, (value, name) =>
    value === 'before'
      ? `timestamp < ${timeSql(`{${name('before')}:Int64}`)}`
      : `${keyColumns[value]} = {${name('row_key')}:UInt64} AND ${hasKey(value, name)}`,
  )
}

/** The imported users that an erasure selects; undefined where the kind selects none. */
export function erasedUsers(erased: ErasedRows, suffix = ''): SqlFragment | undefined {
  if (erased.kind !== 'user_id' && erased.kind !== 'site') return undefined
  return condition(erased, suffix, (_, name) => hasKey('user_id', name), 'imported_at')
}

type Name = (parameter: string) => string

function hasKey(kind: Exclude<TombstoneKind, 'site'>, name: Name): string {
  return `${tombstoneKeySql(kind, 'site_id', kind)} = unhex({${name('key')}:String})`
}

/** The names of all placeholders end in `suffix`, so that one statement can hold the conditions of several erasures. */
function condition(
  { siteId, kind, hashes, before, requestedAt }: ErasedRows,
  suffix: string,
  selects: (kind: Exclude<ErasureKind, 'site'>, name: Name) => string,
  receivedAt = 'received_at',
): SqlFragment {
  const name = (parameter: string): string => `${parameter}${suffix}`
  const conditions = [
    `site_id = {${name('site_id')}:String}`,
    `${receivedAt} <= ${timeSql(`{${name('requested_at')}:Int64}`)}`,
    ...(kind === 'site' ? [] : [selects(kind, name)]),
  ]
  return {
    sql: `(${conditions.join(' AND ')})`,
    params: {
      [name('site_id')]: siteId,
      [name('requested_at')]: requestedAt,
      ...(before !== null && { [name('before')]: before }),
      ...(hashes && { [name('key')]: hashes.key, [name('row_key')]: hashes.rowKey }),
    },
  }
}
