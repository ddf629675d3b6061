import { siteQuery } from '@sluice/contracts/live'
import { validate } from '@sluice/contracts/validate'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { asker, type Questions } from '../ask.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'
import { seenStatement, type ValueRow } from './sql.ts'

/** `data` of an answer. */
export interface SeenProperties {
  properties: { name: string; count: number; values: { value: string; count: number }[] }[]
}

/**
 * `GET /api/v1/properties` (contract section 4): names and values to choose from, as conditions take them.
 * Throws 400, 404 `Site not found`, ClickHouseError.
 */
export function propertiesHandler({ clickHouse, sites }: { clickHouse: Questions; sites: ReadableSites }) {
  return async ({ query, credential, receivedAt, signal, log }: ApiRequest): Promise<Answer> => {
    const { site_id: siteId, environment = credential.environment } = validate(siteQuery, query)
    log({ site_id: siteId })
    await readableSite(sites, credential, siteId)

    const { rows } = await asker(clickHouse, { credential, signal })<ValueRow>(
      seenStatement({ siteId, environment, now: receivedAt }),
    )
    const properties: SeenProperties['properties'] = []
    for (const { name, total, value, events } of rows) {
      if (properties.at(-1)?.name !== name) properties.push({ name, count: total, values: [] })
      properties.at(-1)?.values.push({ value, count: events })
    }
    return { status: 200, data: { properties } }
  }
}
