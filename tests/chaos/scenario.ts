/** Told what happens, a line at a time. */
export type Say = (line: string) => void

/** What came of a scenario. */
export interface Outcome {
  figures: Readonly<Record<string, unknown>>
  /** What is not as it must be; empty: passed. */
  problems: readonly string[]
  /** To find out why: the first differences, say. */
  details: readonly unknown[]
}
