import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { EventsResult } from '@sluice/contracts/events'
import { grants } from '@sluice/contracts/scopes'
import type { SessionResource } from '@sluice/contracts/session'
import type { Client } from '../client.ts'
import { messageOf } from '../failure.ts'
import { formatDuration } from '../output/format.ts'
import { failed, type Finding, ok, warning } from './check.ts'
import { limitsFinding } from './check-key.ts'

/** The type of the event that a doctor sends. */
export const canaryType = 'sluice_doctor'

const waitMsMax = 20_000
const pollMs = 200

export interface CanaryOptions {
  collect: Client
  query: Client
  session: SessionResource
  siteId: string
  signal: AbortSignal
}

/** Sends an event and looks for it with a query, as statistics would see it. */
export async function* checkCanary({
  collect,
  query,
  session,
  siteId,
  signal,
}: CanaryOptions): AsyncGenerator<Finding> {
  const id = randomUUID()
  const begin = performance.now()
  let sentAt: number
  try {
    // The event has no timestamp of its own: the clock of this machine may be wrong.
    const { headers, timestamp } = await collect.request('POST', '/collect', {
      json: { site_id: siteId, event_type: canaryType, event_id: id },
    })
    sentAt = timestamp
    yield ok('event sent', `accepted in ${formatDuration(performance.now() - begin)}`)
    yield limitsFinding('limit of events', headers)
  } catch (error) {
    yield failed('event sent', 'the test event was not accepted', messageOf(error))
    return
  }
  if (!grants(session.scopes, 'stats:read')) {
    yield warning('event found', 'the key may not read', 'Use a key with stats:read to follow an event to its end.')
    return
  }
  const filter = JSON.stringify([{ property: 'event_type', operator: 'equals', value: canaryType }])
  try {
    while (performance.now() - begin < waitMsMax) {
      const { data } = await query.request<EventsResult>('GET', '/api/v1/events', {
        query: { site_id: siteId, start_date: sentAt - 60_000, end_date: sentAt + 60_000, filter },
      })
      if (data.events.some(({ event_id: found }) => found === id)) {
        yield ok('event found', `by a query ${formatDuration(performance.now() - begin)} after it was sent`)
        return
      }
      await delay(pollMs, undefined, { signal })
    }
    yield failed(
      'event found',
      `not within ${formatDuration(waitMsMax)}`,
      'The event is safe in the log: see whether the writer runs and ClickHouse answers ("/readyz" of the writer).',
    )
  } catch (error) {
    signal.throwIfAborted()
    yield failed('event found', 'the query failed', messageOf(error))
  }
}
