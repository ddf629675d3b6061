import type { ClickHouse } from '@sluice/event-store/clickhouse/client'
import { queryReader } from '@sluice/event-store/clickhouse/query-runner'
import type { AnalysisReader } from '@sluice/query/run-analysis'

/** A busy machine may need more time for a statement, and for all statements of a request, than services allow. */
export const patientSeconds = 300

/** Read access to the event store with time limits for a busy machine. */
export function patientReader(client: Pick<ClickHouse, 'query'>): AnalysisReader {
  return { ...queryReader(client, { executionSecondsMax: patientSeconds }), requestMsMax: patientSeconds * 1_000 }
}
