import { messages } from '../../messages/en.ts'

const { count } = messages

export const texts = {
  subject: 'Events',
  export: 'Export these events',
  exported: 'The export was requested.',
  toExports: 'See it under Exports',
  properties: 'Properties',
  propertiesWhy: 'Of the latest 500,000 events of the last 30 days, whatever the range and the filters.',
  property: 'Property',
  value: 'Value',
  events: 'Events',
  valuesOf: (property: string) => `Most frequent values of ${property}`,
  otherValues: (values: number) => `The ${values} most frequent values are listed.`,
  noProperties: 'No event in the last 30 days',
  noPropertiesWhy: 'Names and values of what you send appear here as soon as events arrive.',
  samples: 'What was sent',
  time: 'Time',
  type: 'Type',
  place: 'Path',
  user: 'Visitor',
  country: 'Country',
  data: 'Properties',
  event: 'Event',
  newest: 'Newest',
  older: 'Older',
  shown: (events: number) => count(events, 'event'),
  none: 'No event matches',
  noneWhy: (last: string | undefined) =>
    last === undefined
      ? 'This site has not received an event yet.'
      : `No event matches the range, the environment and the filters. The last event of the site was ${last}.`,
  toLive: 'Wait for one under Live',
  missing: 'This event is not stored',
  missingWhy: 'It was erased, it is older than the site keeps its events, or the link is not complete.',
  copyJson: 'Copy JSON',
  json: 'Event',
} as const
