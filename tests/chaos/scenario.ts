/** Prints a line about the progress. */
export type Say = (line: string) => void

/** The result of a scenario. */
export interface Outcome {
  figures: Readonly<Record<string, unknown>>
  /** Requirements that were not met, in words; the scenario has passed when there are none. */
  problems: readonly string[]
  /** Data for finding the cause, such as the first differences. */
  details: readonly unknown[]
}
