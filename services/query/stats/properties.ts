import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { listObservedProperties } from '@sluice/event-store/properties/list-observed-properties'
import type { Route } from '@sluice/http/route'
import { type AnalysisReader, handleAnalysis, runAnalysis, siteTooLarge } from '../run-analysis.ts'

/**
 * `GET /api/v1/properties` (docs/http-interface.md#observed-properties): names and values that conditions can choose
 * from. Throws 400, 404 `Site not found`, ClickHouseError.
 */
export function propertiesRoute({ eventReader, sites }: { eventReader: AnalysisReader; sites: ReadableSites }): Route {
  return handleAnalysis(operations.properties, eventReader, async ({ query, credential, receivedAt, log }, signal) => {
    const { site_id: siteId, environment = credential.environment } = query
    log({ site_id: siteId })
    await requireReadableSite(sites, { credential, signal }, siteId)

    const spec = { siteId, environment, now: receivedAt }
    return {
      properties: await runAnalysis(
        eventReader,
        { credential, signal },
        (runner) => listObservedProperties(spec, runner),
        { kind: 'properties', tooLarge: { resources: siteTooLarge } },
      ),
    }
  })
}
