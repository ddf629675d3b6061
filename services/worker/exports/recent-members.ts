import type { ExportMembers } from '@sluice/event-store/exports/source'

/** Number of files whose cohort members are kept; the members of one file take at most 200 KB. */
const filesMax = 8

/**
 * Keeps the members of the cohorts of the files that were worked on last. Selecting them again for each unit of work
 * would read all events of the site that meet the conditions of the cohort. Returns the members of a file, which
 * `select` selects if they are not kept.
 */
export function recentMembers(): (file: string, select: () => Promise<ExportMembers>) => Promise<ExportMembers> {
  const kept = new Map<string, ExportMembers>()
  return async (file, select) => {
    const members = kept.has(file) ? kept.get(file) : await select()
    kept.delete(file)
    kept.set(file, members)
    const [oldest] = kept.keys()
    if (kept.size > filesMax && oldest !== undefined) kept.delete(oldest)
    return members
  }
}
