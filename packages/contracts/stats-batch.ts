import type { StatsResult } from './stats.ts'

/** Queries of one batch. */
export const batchQueriesMax = 20

/** The result of one query of a batch. */
export type BatchEntry = { success: true; data: StatsResult } | { success: false; error: string }

/** `data` of POST /api/v1/stats/batch (docs/http-interface.md#stats-batch), in the order of the queries. */
export interface StatsBatchResult {
  results: BatchEntry[]
}
