import { formatNumber } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'

const { count } = messages

export const texts = {
  sentence: 'Events as they arrive, refreshed every two seconds.',
  now: 'The last five minutes',
  visitors: 'Visitors, last 5 minutes',
  events: 'Events, last 5 minutes',
  perMinute: 'Events per minute',
  perMinuteCaption: (latest: number, highest: number) =>
    `Events in each of the last 30 minutes: ${formatNumber(latest)} in the latest, at most ${formatNumber(highest)}`,
  highest: (events: number) => `at most ${formatNumber(events)}`,
  minute: (time: string, events: number) => `${time}, ${count(events, 'event')}`,
  ends: ['30 min ago', 'now'],
  feed: 'Latest events',
  paused: 'Paused',
  newer: (events: number) => `${count(events, 'newer event')} held back`,
  running: 'Running',
  pause: 'Pause',
  resume: 'Resume',
  pauseKey: 'Pause or resume the live feed',
  hint: 'The list does not move while the pointer or the focus is in it; Space pauses it.',
  none: 'No event in the last 24 hours',
  noneWhy: (last: string | undefined) =>
    last === undefined
      ? 'This site has not received an event yet. New ones appear here within seconds.'
      : `The last event was ${last}. New ones appear here within seconds.`,
  elsewhere: (last: string) => `The last event was ${last}, in another environment.`,
  noneFiltered: 'No event of the last 24 hours matches the filters.',
  toEvents: 'Look at older events',
  spoken: (visitors: number, events: number) =>
    `${count(visitors, 'visitor')} and ${count(events, 'event')} in the last five minutes`,
} as const
