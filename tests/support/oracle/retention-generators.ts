import fc from 'fast-check'
import { operators } from '@sluice/contracts/conditions'
import type { RawCriteria, RawMatrix, RawUser } from './expected-retention.ts'
import type { RawEvent } from './expected-stats.ts'
import type { RawCondition } from './matches-condition.ts'

const hour = 3_600_000
const day = 24 * hour
const week = 7 * day

/** A Monday 0:00 of the zone; events and requests lie around it and around other Mondays. */
const places: readonly (readonly [zone: string, monday: number])[] = [
  ['UTC', Date.UTC(2025, 0, 6)],
  ['UTC', Date.UTC(2024, 2, 4)],
  // Zones ahead of UTC, at changes of the year and of clocks.
  ['Australia/Adelaide', Date.UTC(2024, 11, 29, 13, 30)],
  ['Australia/Adelaide', Date.UTC(2024, 9, 6, 13, 30)],
  ['Europe/Berlin', Date.UTC(2024, 2, 31, 22)],
  ['Europe/London', Date.UTC(2024, 10, 4)],
  ['Asia/Kathmandu', Date.UTC(2024, 11, 29, 18, 15)],
  ['Pacific/Kiritimati', Date.UTC(2024, 11, 29, 10)],
  // Zones behind UTC.
  ['America/New_York', Date.UTC(2024, 10, 4, 5)],
  ['America/St_Johns', Date.UTC(2024, 2, 11, 2, 30)],
  ['Etc/GMT+12', Date.UTC(2024, 11, 30, 12)],
  // A zone that crossed the date line: two weeks earlier, a week lacked a day.
  ['Pacific/Apia', Date.UTC(2012, 0, 15, 10)],
  ['Pacific/Apia', Date.UTC(2012, 0, 15, 10)],
]

/**
 * Weeks between an event and the origin: the last ones, those about a year ago, and those with the same bit as these.
 */
const near = [0, 0, 0, -1, -1, -1, -2, -2, -3, -3, -4, -5, -8]
const far = [...near, -11, -12, -13, -26, -51, -52, -53, -62, -63, -64, -65, -66, -70]

/** Times next to a possible begin of a week, to the millisecond, in zones of full and half hours, or any time. */
const offset = fc.oneof(
  fc.constantFrom(0, 0, -1, 1),
  fc
    .tuple(fc.integer({ min: -28, max: 28 }), fc.constantFrom(-1, 0, 1))
    .map(([halves, ms]) => (halves * hour) / 2 + ms),
  fc.integer({ min: 0, max: week - 1 }),
)

const moment = (distances: readonly number[]) =>
  fc.tuple(fc.constantFrom(...distances), offset).map(([weeks, ms]) => weeks * week + ms)

const userId = fc.constantFrom('', 'a', 'b', 'c', 'd', "e'", 'f%', 'g\\')
const types = ['view', 'view', 'purchase', 'sign-up']

const eventsAt = (distances: readonly number[]) =>
  fc.array(
    fc.record(
      {
        environment: fc.constantFrom('prod', 'prod', 'prod', 'dev'),
        event_type: fc.constantFrom(...types),
        timestamp: moment(distances),
        user_id: userId,
        anonymous_id: fc.constantFrom('', 'a', 'y', 'z'),
        session_id: fc.constantFrom('', 's', 'a'),
        country: fc.constantFrom('DE', 'FR'),
        url: fc.constantFrom('https://a.example/x', 'https://a.example/y?z', '/x'),
        properties: fc.record(
          { plan: fc.constantFrom('pro', 'free', ''), n: fc.constantFrom('1', '10', '9', 'x') },
          { requiredKeys: [] },
        ),
      },
      { requiredKeys: ['environment', 'event_type', 'timestamp', 'user_id'] },
    ),
    { minLength: 10, maxLength: 40, size: 'max' },
  )

const user = fc.record(
  {
    environment: fc.constantFrom('prod', 'prod', 'dev'),
    user_id: userId.filter((id) => id !== ''),
    email: fc.constantFrom('a@x.example', "o'neil@y.example", ''),
    name: fc.constantFrom('Ada', '1'),
    company: fc.constantFrom('x', '10'),
    plan: fc.constantFrom('pro', 'free'),
  },
  { requiredKeys: ['environment', 'user_id'] },
)

/** Values that fields hold, and similar ones. */
const values: Readonly<Record<string, readonly string[]>> = {
  event_type: ['view', 'purchase', 'sign-up', 'sign'],
  country: ['DE', 'fr', 'D'],
  url: ['https://a.example/x', '/x', 'z', 'example'],
  path: ['/x', '/y', '/'],
  user_id: ['a', "e'", 'f%', 'g\\', '%'],
  'properties.plan': ['pro', 'free', 'p'],
  'properties.n': ['1', '10', '9', 'x'],
  'user.plan': ['pro', 'free', 'p'],
  'user.company': ['x', '10', '1'],
  email: ['a@x.example', "o'neil", '.example'],
  name: ['Ada', '1'],
}

const condition: fc.Arbitrary<RawCondition> = fc
  .tuple(fc.constantFrom(...Object.keys(values)), fc.constantFrom(...operators))
  .chain(([property, operator]): fc.Arbitrary<RawCondition> => {
    const value = fc.constantFrom(...(values[property] ?? []))
    const base = { property, operator }
    switch (operator) {
      case 'exists':
      case 'not_exists':
        return fc.constant(base)
      case 'in':
      case 'not_in':
        return fc.array(value, { minLength: 1, maxLength: 3 }).map((list) => ({ ...base, value: list }))
      case 'matches':
        return fc.constantFrom('^a', 'x$', '[0-9]', 'p(ro|ur)', '.').map((pattern) => ({ ...base, value: pattern }))
      case 'greater_than':
      case 'greater_than_or_equal':
      case 'less_than':
      case 'less_than_or_equal':
        return fc.constantFrom(9, '9.5', 1).map((number) => ({ ...base, value: number }))
      case 'equals':
      case 'not_equals':
      case 'contains':
      case 'not_contains':
      case 'starts_with':
      case 'ends_with':
        return value.map((text) => ({ ...base, value: text }))
    }
  })

const nested: fc.Arbitrary<RawCondition> = fc.record({
  type: fc.constantFrom('and', 'or'),
  conditions: fc.array(condition, { minLength: 1, maxLength: 2 }),
})

const criteria: fc.Arbitrary<RawCriteria> = fc.record(
  {
    type: fc.constantFrom('and', 'or'),
    scope: fc.constantFrom('event', 'user', 'user'),
    conditions: fc.array(fc.oneof({ arbitrary: condition, weight: 4 }, { arbitrary: nested, weight: 1 }), {
      minLength: 1,
      maxLength: 3,
    }),
  },
  { requiredKeys: ['type', 'conditions'] },
)

/** The time of the request: events may be a day later, as the clocks of clients may be. */
const present = fc.integer({ min: 0, max: week - 1 })
const environment = fc.constantFrom('prod', 'prod', 'dev', 'all')

export interface Cohort {
  criteria: RawCriteria
  weeks: number
  environment: 'prod' | 'dev' | 'all'
}

const cohort: fc.Arbitrary<Cohort> = fc.record({
  criteria,
  weeks: fc.constantFrom(1, 2, 3, 5, 12, 52),
  environment,
})

export type Matrix = Omit<RawMatrix, 'site_id' | 'now' | 'zone'> & { zone: string; end_date?: number }

const matrix: fc.Arbitrary<Matrix> = fc
  .tuple(
    fc.record({
      weeks: fc.constantFrom(1, 2, 5, 12, 12, 13, 52),
      mode: fc.constantFrom('on', 'on', 'on_or_after'),
      of: fc.constantFrom('user', 'user', 'visitor'),
      environment,
      // Mostly empty: then the zone of the trial's place is used.
      zone: fc.option(fc.constantFrom('UTC', 'Australia/Adelaide', 'America/New_York', 'Pacific/Apia'), {
        freq: 4,
        nil: '',
      }),
    }),
    fc.option(criteria, { nil: undefined, freq: 1 }),
    fc.option(fc.constantFrom(...types), { nil: undefined, freq: 1 }),
    fc.oneof({ arbitrary: fc.constant(undefined), weight: 2 }, { arbitrary: moment(far), weight: 1 }),
  )
  .map(([drawn, narrowed, return_event, end_date]) => ({
    ...drawn,
    ...(narrowed && { criteria: narrowed }),
    ...(return_event !== undefined && { return_event }),
    ...(end_date !== undefined && { end_date }),
  }))

export interface Trial {
  place: (typeof places)[number]
  events: (Omit<RawEvent, 'site_id' | 'event_id'> & { timestamp: number })[]
  users: Omit<RawUser, 'site_id'>[]
  present: number
  cohorts: Cohort[]
  matrices: Matrix[]
}

/** Random events, users, and questions about them. */
export const trial: fc.Arbitrary<Trial> = fc.record({
  place: fc.constantFrom(...places),
  events: fc.oneof({ arbitrary: eventsAt(near), weight: 2 }, { arbitrary: eventsAt(far), weight: 1 }),
  users: fc.uniqueArray(user, {
    maxLength: 6,
    selector: ({ environment: of, user_id }) => `${of} ${user_id}`,
  }),
  present,
  cohorts: fc.array(cohort, { minLength: 10, maxLength: 10 }),
  matrices: fc.array(matrix, { minLength: 3, maxLength: 3 }),
})
