import type { ExportResource } from '@sluice/contracts/exports'
import { isUnderWay } from './export-status.tsx'

/** While none is under way: schedules, and others who use the site, make new ones. */
export const waitingMs = 30_000

/** How often exports are refetched, ms: soon while one is under way, else now and then; not before an answer. */
export function refreshMsOf(exports: readonly ExportResource[] | undefined, soonMs: number): number | false {
  if (exports === undefined) return false
  return exports.some(isUnderWay) ? soonMs : waitingMs
}
