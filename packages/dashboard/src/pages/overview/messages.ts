import { observedPropertiesLimits } from '@sluice/contracts/observed-properties'
import { defaultConversionEvent } from '@sluice/contracts/sites'
import type { TimeUnit } from '@sluice/contracts/stats'
import { messages } from '../../messages/en.ts'
import type { HeadlineMetric } from '../../state/view.ts'

/** Texts of the Overview. */
export const texts = {
  metric: 'Metric',
  subjectOf: (metric: HeadlineMetric, conversionEvent: string | null) =>
    metric === 'conversion_rate'
      ? `${messages.metrics[metric]} (${conversionEvent ?? defaultConversionEvent})`
      : messages.metrics[metric],
  interval: 'Interval',
  units: { minute: 'By minute', hour: 'By hour', day: 'By day', week: 'By week', month: 'By month' } satisfies Record<
    TimeUnit,
    string
  >,
  estimate: 'Numbers with ≈ are estimates, nearly always within 1% of the exact value.',
  countExactly: 'Count exactly',
  countedExactly: 'Counted exactly.',
  estimateAgain: 'Estimate again',
  sessionsWith: 'Session metrics measure the complete sessions that contain a matching event.',
  spoken: (metric: string, value: string) => `${metric}: ${value}`,
  before: (value: string) => `before: ${value}`,
  uncompared: 'not compared: too long for this interval',
  chartHelp: 'Arrow keys read the points, Enter opens one.',
  chartSummary: (latest: string, highest: string, change: string) =>
    `Latest ${latest}. Highest ${highest}.${change === '' ? '' : ` ${change}.`}`,
  changeOfAll: (change: string, isRise: boolean | undefined) =>
    isRise === undefined ? `Change: ${change}` : `${isRise ? 'Up' : 'Down'} ${change} against the range before`,
  incomplete: 'still counting',
  partial: 'part of the range only',
  panels: {
    path: 'Pages',
    referrer_host: 'Referrers',
    country: 'Countries',
    device_type: 'Devices',
    event_type: 'Event types',
  },
  properties: 'Properties',
  property: 'Property of the panel',
  propertyExample: 'plan',
  noProperties: `No properties in the last ${observedPropertiesLimits.days} days. Enter the name of an older one above, or send some in “properties” to split numbers by them.`,
  direct: 'Direct or unknown',
  all: 'All',
  allTitle: (name: string) => `All ${name.toLowerCase()}`,
  search: 'Search',
  exportAll: 'Export every row',
  exportStarted: 'The export has started. It is under Exports.',
  exportName: (name: string) => `${name} of the Overview`,
  truncated: (rows: string) => `The first ${rows} rows are shown; the rest is in (other).`,
  notQueried: 'Search for it, or sort by this column.',
  noSession: 'No session begins with this value.',
  tooLow: (rows: string) => `Not counted here: ${rows} other values have higher numbers.`,
  rowHint: 'Click: filter by this value. Alt-click: exclude it. Shift-click: add it. Click again: remove the filter.',
  nothing: 'Nothing here',
  form: 'Show countries as',
  mapLabel: 'Map of the world; the table has the same numbers',
  table: 'Table',
  map: 'Map',
  emptyTitle: 'No events in this range',
  lastEvent: (date: string) => `The last event was on ${date}.`,
  show: (range: string) => `Show ${range}`,
  noMatch: 'No event matches the filters',
  noMatchWhy: 'There may be some outside this range. Remove a filter, or choose a longer range.',
  elsewhere: (names: string) => `This range has events in ${names}.`,
  share: 'Share',
  movingLink: 'Copy moving link',
  movingHint: 'the range moves on',
  fixedLink: 'Copy fixed link',
  fixedHint: 'these dates',
  guestLink: 'Create a guest link',
  guestTitle: 'Guest link',
  guestWhy: (site: string) =>
    `Until it expires, whoever has the link can see the numbers and single events of “${site}”, filter them by users’ names and e-mail addresses, and create, pause and delete the site’s exports, also those of others. It is a key that can be revoked under API Keys.`,
  guestDays: 'Expires after',
  guestMake: 'Create the link',
  guestKey: (site: string) => `Guest link of ${site}`.slice(0, 128),
  guestOnce: 'The link is shown only once.',
  days: (days: number) => messages.count(days, 'day'),
  link: 'Link',
  next: 'Next panel',
  previous: 'Previous panel',
  menu: 'Menu of the panel',
  showTable: 'Chart as a table',
  live: 'Live',
} as const
