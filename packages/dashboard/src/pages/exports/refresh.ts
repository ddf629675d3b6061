import type { ExportResource } from '@sluice/contracts/exports'
import { isUnderWay } from './export-status.tsx'

/** While a schedule waits for its next run. */
export const waitingMs = 30_000

/** How often exports are refetched, ms: soon while one is under way, now and then for the runs of schedules. */
export function refreshMsOf(exports: readonly ExportResource[], soonMs: number): number | false {
  if (exports.some(isUnderWay)) return soonMs
  return exports.some(({ scheduled }) => scheduled !== null) ? waitingMs : false
}
