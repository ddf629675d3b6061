/** What is counted: if one of these never happened, the runs would not test it. */
export const occurrences = [
  'late step',
  'late insert',
  'insert refused after its time',
  'takeover',
  'repeat by another owner',
  'repeat by the same owner',
  'switch',
  'answer lost',
  'dropped by its token',
  'token forgotten',
  'quorum failed',
  'quorum timed out',
  'stored on one replica and not in Keeper',
  'half stored',
  'copy left out',
  'disk lost',
  'replica restarted',
  'Keeper session lost',
  'commit refused',
  'claim without intent',
  'group reset',
  'log recreated',
  'rows missing after an insert',
  'token renewed',
  'batch halved',
] as const

export type Occurrence = (typeof occurrences)[number]

/** What happened in a run. It is always counted, and written down in sentences only if somebody will read them. */
export interface Journal {
  counts: Map<Occurrence, number>
  /** The steps in order; undefined when they are not written down. */
  steps: string[] | undefined
}

export function count({ counts }: Journal, occurrence: Occurrence): void {
  counts.set(occurrence, (counts.get(occurrence) ?? 0) + 1)
}

/** Writes a step down; the function for the text is called only if somebody will read it. */
export function tell({ steps }: Journal, text: () => string): void {
  steps?.push(text())
}

/** A violation of the promise, with the reason. */
export class Violation extends Error {}
