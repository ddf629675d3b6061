/** A difference between what was sent and what is stored. */
export interface Difference<Row, Key> {
  /** `foreign`: stored and never sent. */
  what: 'lost' | 'twice' | 'altered' | 'foreign'
  key: Key
  /** The rows with the key. */
  rows: readonly Row[]
}

/** How many keys differ in each way, of how many rows. */
export interface Comparison<Row, Key> extends Record<Difference<Row, Key>['what'] | 'rows', number> {
  /** The first differences. */
  differences: readonly Difference<Row, Key>[]
}

export interface Expectation<Row, Key> {
  keyOf: (row: Row) => Key
  /** The keys that must be stored. */
  expected: Iterable<Key>
  /** Whether a key was sent at all; every key by default. */
  isKnown?: (key: Key) => boolean
  isAsSent: (row: Row, key: Key) => boolean
}

const differencesMax = 10

/** Compares rows with what was sent, key by key and both ways. All rows with the same key are in one of the batches. */
export async function compareRows<Row, Key>(
  batches: AsyncIterable<readonly Row[]> | Iterable<readonly Row[]>,
  { keyOf, expected, isKnown = () => true, isAsSent }: Expectation<Row, Key>,
): Promise<Comparison<Row, Key>> {
  const differences: Difference<Row, Key>[] = []
  const counts = { rows: 0, lost: 0, twice: 0, altered: 0, foreign: 0 }
  const note = (what: Difference<Row, Key>['what'], key: Key, rows: readonly Row[]): void => {
    counts[what]++
    if (differences.length < differencesMax) differences.push({ what, key, rows })
  }
  const found = new Set<Key>()
  for await (const batch of batches) {
    counts.rows += batch.length
    for (const [key, rows] of Map.groupBy(batch, keyOf)) {
      if (!isKnown(key)) {
        note('foreign', key, rows)
        continue
      }
      found.add(key)
      if (rows.length > 1) note('twice', key, rows)
      if (!rows.every((row) => isAsSent(row, key))) note('altered', key, rows)
    }
  }
  for (const key of expected) if (!found.has(key)) note('lost', key, [])
  return { ...counts, differences }
}
