import { beforeAll, describe, expect, test } from '@jest/globals'
import { QueryClient } from '@tanstack/preact-query'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { loadTemporal } from '../state/temporal.ts'
import { fileNameOf, toCsv } from './csv.ts'
import { toCurl } from './curl.ts'
import { formatBounds, formatIso, formatRecent, formatRelative, formatTick } from './dates.ts'
import { fieldsOf } from './events.ts'
import { jsonText, parseWithLongNumbers } from './json.ts'
import {
  changeOf,
  formatAxis,
  formatBytes,
  formatChange,
  formatCompact,
  formatDuration,
  formatPercent,
  formatProgress,
} from './numbers.ts'
import { filterSentence, propertyLabel } from './sentences.ts'

beforeAll(loadTemporal)

describe('numbers', () => {
  test('are short from 10,000 on', () => {
    expect([0, 9_999, 10_000, 12_345, 1_240_312].map(formatCompact)).toStrictEqual([
      '0',
      '9,999',
      '10K',
      '12.3K',
      '1.24M',
    ])
  })

  test('durations have their two largest units', () => {
    expect([0, 0.44, 9.96, 204, 3_600, 3_725, 90_061].map(formatDuration)).toStrictEqual([
      '0s',
      '0.4s',
      '10s',
      '3m 24s',
      '1h',
      '1h 2m',
      '1d 1h',
    ])
  })

  test('percent and bytes', () => {
    expect(formatPercent(38.24)).toBe('38.2%')
    expect([0, 0.04, 0.996, 1, 1.04].map(formatPercent)).toStrictEqual(['0.0%', '0.04%', '1.00%', '1.0%', '1.0%'])
    expect([0, 999, 3_210_000].map(formatBytes)).toStrictEqual(['0 B', '999 B', '3.21 MB'])
  })

  test('the labels of an axis have the same number of digits, the progress of a task always one', () => {
    const axis = (top: number) => formatAxis([0, top / 2, top], 'percent')
    expect(axis(1)).toStrictEqual(['0.0%', '0.5%', '1.0%'])
    expect(axis(0.3)).toStrictEqual(['0.00%', '0.15%', '0.30%'])
    expect(axis(0.03)).toStrictEqual(['0.000%', '0.015%', '0.030%'])
    expect(axis(100)).toStrictEqual(['0.0%', '50.0%', '100.0%'])
    expect(formatAxis([0, 10_000, 20_000], 'count')).toStrictEqual(['0', '10K', '20K'])
    expect([0, 0.52, 1, 99.96].map(formatProgress)).toStrictEqual(['0.0%', '0.5%', '1.0%', '100.0%'])
  })

  test('rates change in points, and from zero everything is new', () => {
    expect(formatChange(changeOf(200, 225, 'count'))).toBe('12.5%')
    expect(formatChange(changeOf(38.2, 40, 'percent'))).toBe('1.8 points')
    expect(formatChange(changeOf(0.08, 0.04, 'percent'))).toBe('0.04 points')
    expect(formatChange(changeOf(38.2, 38.204, 'percent'))).toBe('no change')
    expect(formatChange(changeOf(0, 5, 'count'))).toBe('new')
    expect(formatChange(changeOf(0, 0, 'count'))).toBe('no change')
  })
})

describe('what is taken away', () => {
  test('CSV quotes, guards formulas and keeps numbers', () => {
    expect(
      toCsv([
        { key: '=1+1', value: -2 },
        { key: 'a,"b"\n', value: 1.5 },
      ]),
    ).toBe(`key,value\r\n'=1+1,-2\r\n"a,""b""\n",1.5\r\n`)
  })

  test('CSV has the fields of all rows', () => {
    expect(
      toCsv([
        { line: 2, message: 'a' },
        { line: 3, field: 'url', message: 'b' },
      ]),
    ).toBe('line,message,field\r\n2,a,\r\n3,b,url\r\n')
  })

  test('curl quotes for a shell and holds no secret', () => {
    expect(toCurl({ method: 'GET', path: `/api/v1/stats?filter=it's` }, 'https://sluice.example')).toBe(
      String.raw`curl -sS 'https://sluice.example/api/v1/stats?filter=it'\''s' \
  -H "Authorization: Bearer $SLUICE_KEY"`,
    )
  })

  test('curl has its dates from the shell, and texts that look like dates as they are', () => {
    const dates = { start: 'date -v-6d', end: 'date' }
    const path = '/api/v1/stats?start_date=1&end_date=2&exact=true'
    expect(toCurl({ method: 'GET', path, dates }, '')).toBe(
      String.raw`start=$(date -v-6d)
end=$(date)
curl -sS '/api/v1/stats?start_date='"$start"'&end_date='"$end"'&exact=true' \
  -H "Authorization: Bearer $SLUICE_KEY"`,
    )
    const body = { filter: '&start_date=1 "start_date":1', start_date: 1, end_date: 2 }
    expect(toCurl({ method: 'POST', path: '', body, dates: { end: 'date' } }, '')).toContain(
      String.raw`-d '{"filter":"&start_date=1 \"start_date\":1","start_date":1,"end_date":'"$end"'}'`,
    )
  })

  test('file names are safe everywhere', () => {
    expect(fileNameOf(['my-site', 'visitors', 'by-properties.a/b', '2026-11-01'], 'csv')).toBe(
      'my-site_visitors_by-properties.a-b_2026-11-01.csv',
    )
  })
})

describe('dates', () => {
  const range = { startMs: Date.UTC(2015, 4, 17), endMs: Date.UTC(2015, 4, 21), isOpen: false }

  test('name a range once where its ends agree', () => expect(formatBounds(range, 'UTC')).toBe('17–20 May 2015'))

  test('name the times of a range that was chosen by times', () => {
    const hours = {
      startMs: Date.UTC(2015, 4, 17, 10),
      endMs: Date.UTC(2015, 4, 17, 12),
      isOpen: false,
      hasTimes: true,
    }
    expect(formatBounds(hours, 'UTC')).toBe('17 May 2015, 10:00–12:00')
  })

  test('name the day on an axis of hours, and the year in a way that is not a day', () => {
    const midnight = Date.UTC(2026, 10, 23, 23)
    const ticks = [0, 15, 24].map((hours) => formatTick(midnight + hours * 3_600_000, 'hour', 'Europe/Berlin'))
    expect(ticks).toStrictEqual(['24 Nov', '15:00', '25 Nov'])
    expect(formatTick(Date.UTC(2020, 8, 1), 'month', 'UTC')).toBe('Sept 2020')
  })

  test('of a list of the last hours name the day where it is another one', () => {
    const now = Date.UTC(2026, 10, 23, 0, 30)
    const shown = [-1, -1_801].map((seconds) => formatRecent(now + seconds * 1_000, 'UTC', now))
    expect(shown).toStrictEqual(['00:29:59', '22 Nov, 23:59:59'])
  })

  test('are ISO 8601 with the zone’s offset in files', () => {
    expect(formatIso(Date.UTC(2026, 10, 22, 13, 5, 9), 'Europe/Berlin')).toBe('2026-11-22T14:05:09+01:00')
    expect(formatIso(Date.UTC(2026, 10, 22, 13, 5, 9, 120), 'Asia/Kolkata')).toBe('2026-11-22T18:35:09.120+05:30')
  })
})

test('the filter sentence names what is counted, the filters, the range and the comparison', () => {
  expect(
    filterSentence({
      subject: 'Visitors',
      filters: [
        { property: 'country', operator: 'in', value: ['DE', 'FR'] },
        { property: 'path', operator: 'starts_with', value: '/blog' },
      ],
      range: '28d',
      compare: 'previous',
      compared: { startMs: 0, endMs: 1, isOpen: false },
      zone: 'UTC',
    }),
  ).toBe('Visitors from Germany or France, where path starts with /blog, last 28 days, against the 28 before')
})

test('a time some days off is not called yesterday or tomorrow, which are days of the calendar', () => {
  const now = Date.UTC(2026, 10, 25, 9)
  const hours = [-47, -25, -1, 0, 47].map((each) => formatRelative(now + each * 3_600_000, now))
  expect(hours).toStrictEqual(['1 day ago', '1 day ago', '1 hour ago', 'now', 'in 1 day'])
  const days = [-4_211, -731, -70, -60].map((each) => formatRelative(now + each * 24 * 3_600_000, now))
  expect(days).toStrictEqual(['11 years ago', '2 years ago', '2 months ago', '60 days ago'])
})

test('numbers that a double can’t hold keep their digits, in JSON and as fields of an event', () => {
  const text =
    '{"id":-9007199254740993,"list":[9007199254740993,"9007199254740993"],"sum":1e+300,"n":0.30000000000000004,"small":1.0000000000000000001e-40,"price":0.1234567890123456789}'
  const parsed = parseWithLongNumbers(text) as NonNullable<StoredEvent['properties']>
  expect(parsed).toMatchObject({ sum: 1e300, n: 0.30000000000000004 })
  expect(jsonText(parsed)).toBe(text)
  const environment = 'prod' as const
  const event = { event_id: 'e', site_id: 's', event_type: 'x', environment, timestamp: 0, received_at: 0 }
  const fields = fieldsOf({ ...event, properties: parsed }, 'UTC')
  const shown = fields.filter(({ kind }) => kind === 'number').map(({ name, value }) => [name, value])
  expect(shown).toStrictEqual([
    ['properties.id', '-9007199254740993'],
    ['properties.sum', '1e+300'],
    ['properties.n', '0.30000000000000004'],
    ['properties.small', '1.0000000000000000001e-40'],
    ['properties.price', '0.1234567890123456789'],
  ])
})

test('numbers that a double can’t hold keep their digits when an answer comes again', () => {
  const client = new QueryClient()
  const answer = (id: string) => `{"events":[{"properties":{"id":${id},"price":0.1234567890123456789}}]}`
  for (const id of ['9007199254740993', '9007199254740995'])
    client.setQueryData(['events'], parseWithLongNumbers(answer(id)))
  expect(jsonText(client.getQueryData(['events']))).toBe(answer('9007199254740995'))
})

test('fields of events, imported fields of users and properties of one name are told apart', () => {
  expect(['country', 'properties.country', 'plan', 'user.plan', 'properties.plan'].map(propertyLabel)).toStrictEqual([
    'country',
    'properties.country',
    'plan (imported)',
    'plan (imported)',
    'plan',
  ])
  expect(['user_id', 'properties.user', 'properties.user_id'].map(propertyLabel)).toStrictEqual([
    'user',
    'properties.user',
    'properties.user_id',
  ])
})
