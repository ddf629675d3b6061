import type { ClickHouse } from '@sluice/event-store/client'
import { queryReader } from '@sluice/event-store/query-runner'
import type { AnalysisReader } from '@sluice/query/run-analysis'

/** A busy machine may take longer for a statement, and for all those of a request, than services wait. */
export const patientSeconds = 300

/** Read access to the event store that waits for as long as a busy machine takes. */
export function patientReader(client: Pick<ClickHouse, 'query'>): AnalysisReader {
  return { ...queryReader(client, { executionSecondsMax: patientSeconds }), requestMsMax: patientSeconds * 1_000 }
}
