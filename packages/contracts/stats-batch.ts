import type { StatsResult } from './stats.ts'

/** Queries of one batch. */
export const batchQueriesMax = 20

/** The result of one query of a batch, or the HTTP status and the error that the query alone would have got. */
export type BatchEntry = { success: true; data: StatsResult } | { success: false; status: number; error: string }

/** `data` of POST /api/v1/stats/batch (docs/http-interface.md#stats-batch), in the order of the queries. */
export interface StatsBatchResult {
  results: BatchEntry[]
}
