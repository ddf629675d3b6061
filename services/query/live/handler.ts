import type { PropertyType } from '@sluice/contracts/event-row'
import { liveLimits, siteQuery } from '@sluice/contracts/live'
import type { Environment } from '@sluice/contracts/scopes'
import { validate } from '@sluice/contracts/validate'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { asker, type Questions } from '../ask.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'
import { type CountRow, countsStatement, type EventRow, lastEventsStatement } from './sql.ts'

/** `data` of an answer; all times are Unix ms. */
export interface LiveResult {
  visitors_5m: number
  events_5m: number
  per_minute: number[]
  last_events: StoredEvent[]
}

interface StoredEvent {
  event_id: string
  event_type: string
  timestamp: number
  received_at: number
  environment: Environment
  properties?: Record<string, unknown>
}

/** `GET /api/v1/live` (contract section 4): what happened until now. Throws 400, 404 `Site not found`, ClickHouseError. */
export function liveHandler({ clickHouse, sites }: { clickHouse: Questions; sites: ReadableSites }) {
  return async ({ query, credential, receivedAt, signal, log }: ApiRequest): Promise<Answer> => {
    const { site_id: siteId, environment = credential.environment } = validate(siteQuery, query)
    log({ site_id: siteId })
    await readableSite(sites, credential, siteId)

    const ask = asker(clickHouse, { credential, signal })
    const until = { siteId, environment, now: receivedAt }
    const [counts, events] = await Promise.all([
      ask<CountRow>(countsStatement(until)),
      ask<EventRow>(lastEventsStatement(until)),
    ])
    const perMinute = Array<number>(liveLimits.minutes).fill(0)
    for (const { minute, events: count } of counts.rows) perMinute[minute] = count
    const data: LiveResult = {
      visitors_5m: counts.totals?.visitors ?? 0,
      events_5m: perMinute.slice(-liveLimits.recentMinutes).reduce((sum, count) => sum + count, 0),
      per_minute: perMinute,
      last_events: events.rows.map(storedEvent),
    }
    return { status: 200, data }
  }
}

/** Fields that are not there are left out; properties have the types that they were sent with. */
function storedEvent({ properties, property_types: types, ...fields }: EventRow): StoredEvent {
  const given = Object.entries(fields).filter(([, value]) => value !== '')
  const typed = Object.entries(properties).map(([name, text]) => [name, typedValue(text, types[name])])
  return {
    ...(Object.fromEntries(given) as Omit<StoredEvent, 'properties'>),
    ...(typed.length === 0 ? {} : { properties: Object.fromEntries(typed) as Record<string, unknown> }),
  }
}

function typedValue(text: string, type: PropertyType | undefined): unknown {
  // What is no text is stored as JSON writes it.
  return type === undefined ? text : JSON.parse(text)
}
