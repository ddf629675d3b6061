/** `limit` and `offset` of every list (docs/http-interface.md#lists). */
export interface Page {
  limit: number
  offset: number
}

/** `data` of every list: the items of the page under their plural name, and how many items there are in all. */
export type ListOf<Plural extends string, Item> = Readonly<Record<Plural, readonly Item[]>> &
  Page & { readonly total: number }

/** The `limit` of a list without one, and the greatest. */
export const pageDefaults = { limit: 50, limitMax: 1_000 } as const
