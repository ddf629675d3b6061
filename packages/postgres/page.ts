import { type RawBuilder, type SelectQueryBuilder, sql } from 'kysely'
import type { Page } from '@sluice/contracts/paging'
import { invalidField } from '@sluice/runtime/errors'
import { countRows } from './count-rows.ts'
import type { Db, Tables } from './tables.ts'

/** Maximum bytes of the documents of one page, of which several copies are in memory while the page is answered. */
const pageBytesMax = 32 * 1024 * 1024

/**
 * Throws AppError `invalid_field` when the documents of a page are too large in total. `documents` selects the
 * `document` of each row of the page, a text or JSON.
 */
export async function requirePageSize(db: Db, documents: RawBuilder<unknown>): Promise<void> {
  const { rows } = await sql<{ bytes: string | null }>`
    SELECT sum(octet_length(document::text)) AS bytes FROM (${documents}) AS page`.execute(db)
  if (Number(rows[0]?.bytes ?? 0) <= pageBytesMax) return
  throw invalidField('limit', 'is too high: the page would be too large, so use a lower limit')
}

/** Reads a page of the rows of `selected`, in its order, and counts all of its rows. */
export async function selectPage<T extends keyof Tables, Row>(
  selected: SelectQueryBuilder<Tables, T, Row>,
  { limit, offset }: Page,
): Promise<{ rows: Row[]; total: number }> {
  const rows = await selected.limit(limit).offset(offset).execute()
  return { rows, total: await countRows(selected) }
}
