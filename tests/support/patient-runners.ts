import type { ClickHouse } from '@sluice/event-store/client'
import { type QueryRunners, queryRunners } from '@sluice/event-store/query-runner'

/** A busy machine may take longer for a statement than services wait. */
export const patientSeconds = 300

/** Runners that wait for as long as a busy machine takes. */
export function patientRunners(client: Pick<ClickHouse, 'query'>): QueryRunners {
  return queryRunners(client, { executionSecondsMax: patientSeconds })
}
