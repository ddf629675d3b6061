import type { SelectQueryBuilder } from 'kysely'
import type { Tables } from './tables.ts'

/** The part of a list that is read: up to `limit` rows after the first `offset`. */
export interface Page {
  limit: number
  offset: number
}

/** Reads a page of the rows that `selected` selects in its order, and counts all of them. */
export async function selectPage<T extends keyof Tables, Row>(
  selected: SelectQueryBuilder<Tables, T, Row>,
  { limit, offset }: Page,
): Promise<{ rows: Row[]; total: number }> {
  const rows = await selected.limit(limit).offset(offset).execute()
  const { total } = await selected
    .clearSelect()
    .clearOrderBy()
    .select((select) => select.fn.countAll<string>().as('total'))
    .executeTakeFirstOrThrow()
  return { rows, total: Number(total) }
}
