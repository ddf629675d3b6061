import type { ClickHouse } from '@sluice/event-store/client'
import { queryRunners } from '@sluice/event-store/query-runner'
import type { AnalysisRunners } from '@sluice/query/run-analysis'

/** A busy machine may take longer for a statement, and for all those of a request, than services wait. */
export const patientSeconds = 300

/** Runners that wait for as long as a busy machine takes. */
export function patientRunners(client: Pick<ClickHouse, 'query'>): AnalysisRunners {
  return { ...queryRunners(client, { executionSecondsMax: patientSeconds }), requestMsMax: patientSeconds * 1_000 }
}
