import type { Actor } from '@sluice/contracts/actors'
import { observedPropertiesLimits } from '@sluice/contracts/observed-properties'
import { formatPercent } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'

const { count } = messages

const durations: Readonly<Record<string, string>> = { m: 'minute', h: 'hour', d: 'day' }

/** `7 days` of `7d`; other texts as they are. */
const durationLabel = (window: string) => {
  const [, amount, unit] = /^(\d+)([mhd])$/.exec(window) ?? []
  const word = durations[unit ?? '']
  return amount === undefined || word === undefined ? window : count(Number(amount), word)
}

export const texts = {
  actorNames: { user: 'users', visitor: 'visitors' },
  actors: (actor: Actor, number: number) => (number === 1 ? actor : `${actor}s`),
  actorTitles: { user: 'Users', visitor: 'Visitors' },
  sentence: (range: string) => `How many go on from step to step, and where they stop, ${range}.`,
  window: 'Within',
  within: durationLabel,
  counted: 'Count',
  chips: 'Filters of other pages don’t apply to funnels. A step has conditions of its own.',
  suggested: 'Suggested from your most frequent events: change the steps to ask your own question.',
  steps: 'Steps',
  first: (actors: string) => `${actors} who did`,
  then: 'and then',
  eventOf: (place: number) => `Event of step ${place}`,
  addCondition: 'Add a condition',
  addConditionTo: (place: number) => `Add a condition to step ${place}`,
  where: 'where',
  and: 'and',
  group: 'a group of conditions',
  addStep: 'Add a step',
  remove: (place: number) => `Remove step ${place}`,
  up: (place: number) => `Move step ${place} up`,
  down: (place: number) => `Move step ${place} down`,
  lost: (lost: number, rate: number, actor: Actor) => `${count(lost, actor)} (${formatPercent(rate)}) went no further`,
  noneLost: 'Everybody went on',
  resultOf: (actors: string, steps: number, window: string) =>
    `of the ${actors} of step 1 did all ${steps} steps within ${window}`,
  fromFirst: 'of step 1',
  fromPrevious: 'of the step before',
  against: (text: string) => `Compared: ${text}`,
  compared: 'Compared funnel',
  none: (actors: string) => `No ${actors} did the first step`,
  noneUsers:
    'Users are told apart by the user_id of their events, and no event of the first step has one in this range. Visitors count by anonymous_id or session, too.',
  noneVisitors: 'No event of the first step lies in this range. Choose another range, or another first event.',
  countVisitors: 'Count visitors',
  unknownTypes: `No event of this environment in the last ${observedPropertiesLimits.days} days: wait for one under Live, or enter the event types of older ones.`,
  noEvents: 'No events yet',
  noEventsWhy: 'Steps are chosen from the events that this site sends.',
  toLive: 'Wait for one under Live',
  label: 'Funnel',
} as const
