import type { SelectQueryBuilder } from 'kysely'
import { conflict } from '@sluice/runtime/errors'
import type { Tables } from './tables.ts'

/** Counts the rows of `selected`. */
export async function countRows<T extends keyof Tables, Row>(
  selected: SelectQueryBuilder<Tables, T, Row>,
): Promise<number> {
  const { total } = await selected
    .clearSelect()
    .clearOrderBy()
    .select((select) => select.fn.countAll<string>().as('total'))
    .executeTakeFirstOrThrow()
  return Number(total)
}

/**
 * Throws AppError `conflict` when `selected` has `max` rows already: those of a site, which `what` names in the plural.
 * The caller prevents concurrent creations, which would both count before either has stored a row.
 */
export async function requireBelowLimit<T extends keyof Tables, Row>(
  selected: SelectQueryBuilder<Tables, T, Row>,
  max: number,
  what: string,
): Promise<void> {
  if ((await countRows(selected)) >= max) throw conflict(`Site has ${max} ${what}, the maximum: delete one first`)
}
