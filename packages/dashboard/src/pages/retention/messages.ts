import type { Actor } from '@sluice/contracts/actors'
import { formatPercent } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'

const { count } = messages

export const texts = {
  sentence:
    'Users or visitors by the week of their first event, and how many came back. The time range and the filters don’t apply here; a cohort narrows the users.',
  chips:
    'Filters don’t apply to retention: it looks at everything that a user did. To narrow the users, choose a cohort.',
  weeks: 'Weeks',
  lastWeeks: (weeks: number) => `Last ${count(weeks, 'week')}`,
  returnEvent: 'Coming back is',
  anyEvent: 'any event',
  mode: 'Returned',
  modes: { on: 'in that week', on_or_after: 'in that week or later' },
  countOf: 'Count',
  actors: { user: 'users', visitor: 'visitors' },
  cohort: 'Cohort',
  everyone: { user: 'all users', visitor: 'all visitors' },
  cohortScope: 'Cohorts need a key with the scope cohorts:read.',
  curve: (name: string, week: string, rate: number) => `${name}: ${formatPercent(rate)} in ${week}`,
  noCurve: (name: string) => `${name}: no week is over yet`,
  average: 'Average',
  averageHint: 'Weighted by size, complete weeks only',
  weekOf: (date: string) => `Week of ${date}`,
  week: (number: number) => `Week ${number}`,
  weekOfFirst: 'First event in',
  counted: { user: 'Users', visitor: 'Visitors' },
  table: 'Retention by week',
  scroll: 'Retention by week, scrolls sideways',
  inProgress: 'in progress',
  legend: (zone: string) => `Dashed: the week is in progress. Weeks begin on Monday, in the time zone ${zone}.`,
  cutOff: (days: number, actor: Actor) =>
    `This site keeps events for ${count(days, 'day')}. A ${actor} whose earlier events were deleted counts as new in the week of the first one that is left.`,
  cell: (actor: Actor, returning: number, size: number) => `${count(returning, actor)} of ${count(size, actor)}`,
  none: { user: 'No user in these weeks', visitor: 'No visitor in these weeks' },
  noneWhy: {
    user: 'Users are told apart by the user_id of their events, and none of these weeks has a new one. Visitors count by anonymous_id or session, too.',
    visitor: 'None of these weeks has a new visitor.',
  },
  noneInCohort: 'No user of this cohort had a first event in these weeks.',
  allUsersButton: 'Show all users',
  countVisitors: 'Count visitors',
} as const
