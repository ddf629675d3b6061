import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { FunnelResult } from '@sluice/contracts/funnel'
import { funnelRoute } from '@sluice/query/stats/funnel'
import { apiRequest } from '../api-request.ts'
import { patientReader } from '../patient-reader.ts'
import { allSitesKnown, hour, noon, openStatsDatabase, type StatsDatabase } from '../stats-database.ts'
import type { TestStore } from '../test-store.ts'
import { expectedFunnel, type RawFunnel } from './expected-funnel.ts'
import type { RawEvent } from './expected-stats.ts'
import type { RawCondition } from './matches-condition.ts'

let database: StatsDatabase

const type = fc.constantFrom('view', 'view', 'cart', 'buy')
/** Few different times, so that many events have the same time or are exactly a window apart. */
const moment = fc
  .tuple(fc.integer({ min: 0, max: 6 }), fc.constantFrom(0, 0, 0, 1, -1))
  .map(([hours, ms]) => hours * hour + ms)

const event = fc.record({
  event_type: type,
  at: moment,
  user_id: fc.constantFrom('', 'a', 'b', 'c'),
  anonymous_id: fc.constantFrom('', 'a', 'b'),
  session_id: fc.constantFrom('', 'a'),
  environment: fc.constantFrom('prod' as const, 'prod' as const, 'dev' as const),
  country: fc.constantFrom('DE', 'FR'),
  rank: fc.nat(99),
})

const inGermany: RawCondition[] = [{ property: 'country', operator: 'equals', value: 'de' }]

const step: fc.Arbitrary<RawFunnel['steps'][number]> = fc.oneof(
  { arbitrary: fc.record({ event_type: type }), weight: 3 },
  {
    arbitrary: fc.record({
      event_type: type,
      conditions: fc.constantFrom(inGermany, []),
    }),
    weight: 1,
  },
)

const funnel = fc.record({
  environment: fc.constantFrom('prod', 'prod', 'all'),
  edges: fc.tuple(moment, moment).filter(([a, b]) => a !== b),
  steps: fc.array(step, { minLength: 2, maxLength: 5 }),
  of: fc.constantFrom(undefined, 'user' as const, 'visitor' as const),
  windowSeconds: fc.constantFrom(0, 3600, 7200, 3 * 3600 - 1, 86_400),
})

const trial = fc.record({
  events: fc.array(event, { minLength: 1, maxLength: 25, size: 'max' }),
  funnels: fc.array(funnel, { minLength: 5, maxLength: 5 }),
})

/** Tests funnels on a store with random events: five of each trial. */
export function testFunnelTrials(open: () => Promise<TestStore>, { trialCount }: { trialCount: number }): void {
  beforeAll(async () => {
    database = await openStatsDatabase(open)
  })

  afterAll(async () => {
    await database.drop()
  })

  test('funnels of random events are those of the oracle', async () => {
    await fc.assert(
      fc.asyncProperty(trial, async ({ events, funnels }) => {
        const stored = events.map(({ rank, ...drawn }, index) => ({
          ...drawn,
          at: drawn.at / hour,
          event_id: `${rank}-${index}`,
        }))
        const site_id = await database.siteWith(stored)
        const raw: RawEvent[] = stored.map(({ at, ...fields }) => ({
          ...fields,
          site_id,
          timestamp: Math.round(noon + at * hour),
        }))
        for (const { environment, edges, steps, of, windowSeconds } of funnels) {
          const rawFunnel: RawFunnel = {
            site_id,
            environment,
            start_date: noon + Math.min(...edges),
            end_date: noon + Math.max(...edges),
            windowMs: windowSeconds * 1000,
            steps,
            ...(of && { of }),
          }
          expect(await requestFunnel(rawFunnel, windowSeconds)).toStrictEqual(expectedFunnel(raw, rawFunnel))
        }
      }),
      { numRuns: trialCount },
    )
  })
}

async function requestFunnel({ windowMs: _, ...funnel }: RawFunnel, windowSeconds: number): Promise<number[]> {
  const { handle } = funnelRoute({ eventReader: patientReader(database.reader), ...allSitesKnown() })
  const body = {
    bytes: Buffer.from(JSON.stringify({ ...funnel, window: `${windowSeconds}s` })),
    type: 'application/json',
  }
  const { data } = await handle(apiRequest({ requestId: randomUUID(), body }))
  return (data as FunnelResult).steps.map(({ users }) => users)
}
