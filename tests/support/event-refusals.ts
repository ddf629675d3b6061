import fc from 'fast-check'
import { siteCache, type SitePolicies } from '@sluice/access/site-cache'
import type { SiteStore } from '@sluice/access/sites'
import { eventLimits } from '@sluice/contracts/event-limits'
import { knownFields } from '@sluice/events/event-schema'
import { encodeBatch, withoutRefused } from '@sluice/gateway/collect-batch/encode-batch'
import { readEvents } from '@sluice/gateway/collect-batch/read-events'
import { badEvents } from '../golden/event-samples.ts'
import { capturedLogger } from './captured-logger.ts'

const receivedAt = Date.UTC(2026, 0, 15, 12)
const request = {
  receivedAt,
  credential: {
    keyId: 'key_writer',
    name: 'test',
    environment: 'prod',
    scopes: ['events:write'],
    siteIds: null,
    rateLimits: null,
    allowedOrigins: null,
    expiresAt: null,
  },
} as const
const goodEvent = JSON.stringify({ site_id: 'shop', event_type: 'view', timestamp: receivedAt - 2 * 86_400_000 })

/** The error of the gateway for an event that is sent as the JSON text `json`; undefined when it is accepted. */
export function refusalOfJson(json: string, type = 'application/x-ndjson'): string | undefined {
  return refusalOf(json, { type })
}

/** The errors of events that are wrong whatever their site is: one for each bad event of the golden files, and others. */
export function eventRefusals(): readonly (string | undefined)[] {
  const tooLarge = JSON.stringify({ ...(JSON.parse(goodEvent) as object), note: 'x'.repeat(eventLimits.eventBytesMax) })
  return [
    ...badEvents.map((json) => refusalOfJson(json)),
    refusalOfJson('{"site_id":'),
    refusalOfJson(tooLarge),
    refusalOfJson(`{"events":[${tooLarge}]}`, 'application/json'),
    refusalOf(goodEvent, { policies: new Map([['shop', { retentionMs: 86_400_000 }]]) }),
  ]
}

/** Valid events in JSON, but for one known or unknown field with any value. */
export const eventWithAnyField = fc
  .tuple(fc.oneof(fc.constantFrom(...knownFields), fc.string()), fc.jsonValue())
  .map(([name, value]) => JSON.stringify({ ...(JSON.parse(goodEvent) as object), [name]: value }))

/** The errors of an event because of its site, which may be accepted later. */
export async function siteRefusals(): Promise<readonly (string | undefined)[]> {
  const policiesOf = (store: Partial<SiteStore>, autoRegister: boolean) => {
    const unused = () => Promise.reject(new Error('no test of the cache'))
    const stores = { registerFor: unused, findRegistered: unused, changedSince: unused, ...store }
    return siteCache(stores, capturedLogger().logger, { autoRegister }).register('key_writer', new Set(['shop']))
  }
  const refused = { refused: ['shop'], retryAfterSeconds: 60, retentionDays: new Map<string, number>() }
  return [
    refusalOf(goodEvent, { allowedSites: new Set(['other']) }),
    refusalOf(goodEvent, { policies: await policiesOf({ findRegistered: () => Promise.resolve(new Map()) }, false) }),
    refusalOf(goodEvent, { policies: await policiesOf({ registerFor: () => Promise.resolve(refused) }, true) }),
  ]
}

/** What an event meets in the gateway besides its validation. */
interface Conditions {
  /** The content type of the body. */
  type?: string
  allowedSites?: ReadonlySet<string>
  policies?: SitePolicies
}

/** The error for the one event of a body; undefined when it is accepted. */
function refusalOf(
  body: string,
  { type = 'application/x-ndjson', allowedSites, policies = new Map() }: Conditions,
): string | undefined {
  const { items } = readEvents({ bytes: Buffer.from(body), type })
  const encoded = encodeBatch(items, request, allowedSites, () => undefined)
  const { errors } = withoutRefused(encoded, policies, receivedAt, () => undefined)
  return errors[0]?.error
}
