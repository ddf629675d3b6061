import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { guardCell } from '@sluice/contracts/csv-cells'
import type { EventRow } from '@sluice/contracts/event-columns'
import { encodeEvent } from '@sluice/events/encode-event'
import { AppError } from '@sluice/runtime/errors'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { encodeImportedEvent, type EventImport } from './encode-imported-event.ts'
import type { FileLayout } from './file-record.ts'
import { recordParser } from './parse-record.ts'

const receivedAt = Date.UTC(2026, 0, 15, 12)
const timestamp = receivedAt - 1_000
const job: EventImport = { siteId: 'shop', environment: 'prod', receivedAt, sha256: 'ab'.repeat(32) }

function imported(text: string | Buffer, layout: FileLayout): ReturnType<typeof encodeImportedEvent> {
  return encodeImportedEvent(
    { number: 7, line: 9, bytes: Buffer.from(text as string) },
    recordParser(layout, 'events'),
    job,
  )
}

function csv(header: string, record: string | Buffer): ReturnType<typeof encodeImportedEvent> {
  return imported(record, { format: 'csv', delimiter: ',', columns: header.split(',') })
}

function json(record: string): ReturnType<typeof encodeImportedEvent> {
  return imported(record, { format: 'ndjson' })
}

function rowOf({ value, error }: ReturnType<typeof encodeImportedEvent>): EventRow {
  if (value === undefined) throw new Error(error.message)
  return JSON.parse(value.line) as EventRow
}

const made = {
  environment: 'prod',
  received_at: receivedAt,
  site_id: 'shop',
  event_type: 'view',
  timestamp,
  event_id: `imp_${'ab'.repeat(16)}_7`,
}

describe('the row of a record of CSV', () => {
  test('has the fields of the cells, and an id of the file and the number', () => {
    expect(rowOf(csv('timestamp_ms,event_type', `${timestamp},view`))).toEqual(made)
    expect(rowOf(csv('timestamp_ms,event_type', `${timestamp / 1e12}E12,view`))).toEqual(made)
    const header = 'event_type,timestamp_ms,event_id,site_id,country,device_type,url,environment,received_at'
    expect(rowOf(csv(header, `view,${timestamp}.9,e1,shop,de,Mobile,"https://a.b/?x=""1"",2",dev,1`))).toEqual({
      ...made,
      event_id: 'e1',
      country: 'DE',
      device_type: 'mobile',
      url: 'https://a.b/?x="1",2',
    })
  })

  test('has properties with the types of their JSON, and texts of their own columns, which count', () => {
    const header = 'event_type,timestamp_ms,properties,properties.plan,properties.__proto__,properties.n'
    const cell =
      '"{""n"":1,""order"":12345678901234567890,""list"":[1,1.0000000000000000001e-40],""deep"":{""a"":true},""price"":0.1234567890123456789}"'
    expect(rowOf(csv(header, `view,${timestamp},${cell},pro,x,5`))).toEqual({
      ...made,
      // As an own field, as JSON.parse makes it.
      properties: JSON.parse(
        '{"n":"5","order":"12345678901234567890","list":"[1,1.0000000000000000001e-40]","deep.a":"true","price":"0.1234567890123456789","plan":"pro","__proto__":"x"}',
      ) as object,
      property_types: { order: 'number', list: 'array', 'deep.a': 'boolean', price: 'number' },
    })
    expect(rowOf(csv(header, `view,${timestamp},,,,`))).toEqual(made)
  })

  test('has cells without the guard of our exports', () => {
    const header = 'event_type,timestamp_ms,user_id,properties.a'
    expect(rowOf(csv(header, `view,${timestamp},'=1+1,''@`))).toEqual({
      ...made,
      user_id: '=1+1',
      properties: { a: "'@" },
    })
  })

  test('has no fields for the NULL of databases, and keeps the quoted text of the same characters', () => {
    const header = 'event_type,timestamp_ms,event_id,user_id,anonymous_id,properties.a'
    expect(rowOf(csv(header, `view,${timestamp},\\N,\\N,\\N,\\N`))).toEqual(made)
    expect(rowOf(csv(header, `"view",${timestamp},\\N,"\\N",\\N,"\\N"`))).toEqual({
      ...made,
      user_id: '\\N',
      properties: { a: '\\N' },
    })
  })

  test('has ids and properties that only resemble a rounded number', () => {
    const header = 'event_type,timestamp_ms,event_id,user_id,session_id,url,properties.a'
    expect(rowOf(csv(header, `view,${timestamp},"1E+17",1e+17,1E17,1E+17,1.23457E+17`))).toEqual({
      ...made,
      event_id: '1E+17',
      user_id: '1e+17',
      session_id: '1E17',
      url: '1E+17',
      properties: { a: '1.23457E+17' },
    })
  })

  test('has the hash of its id, so that copies meet in one partition', () => {
    const { value } = csv('timestamp_ms,event_type', `${timestamp},view`)
    const live = encodeEvent(
      { ...made, environment: undefined, received_at: undefined },
      { receivedAt, environment: 'prod' },
    )
    expect(value).toMatchObject({ keyHash: live.keyHash, undated: false, timestamp, siteId: 'shop' })
  })
})

describe('the row of a JSON record', () => {
  test('has the fields of its members', () => {
    for (const name of ['timestamp', 'timestamp_ms']) {
      expect(
        rowOf(
          json(`{"event_type":"view","${name}":${timestamp}.00000000000000000001,"site_id":null,"environment":"dev","received_at":1,
          "properties":{"a":{"b":12345678901234567890},"c":null,"d":true},"properties.c":0.1234567890123456789,"properties.d":null}`),
        ),
      ).toEqual({
        ...made,
        properties: { 'a.b': '12345678901234567890', c: '0.1234567890123456789', d: 'true' },
        property_types: { 'a.b': 'number', c: 'number', d: 'boolean' },
      })
    }
  })
})

test('a time that is null or empty is absent beside one of the other name', () => {
  for (const absent of ['null', '""']) {
    for (const times of [
      `"timestamp":${absent},"timestamp_ms":${timestamp}`,
      `"timestamp_ms":${timestamp},"timestamp":${absent}`,
    ]) {
      expect(rowOf(json(`{"event_type":"view",${times}}`))).toEqual(made)
    }
  }
})

describe('a record fails', () => {
  const header = 'event_type,timestamp_ms,site_id,url,properties'
  const object = `"event_type":"view","timestamp_ms":${timestamp}`
  test.each<[string, ReturnType<typeof encodeImportedEvent>, string, string?]>([
    ['with too few fields', csv(header, 'view,1'), 'Invalid format: record has 2 fields where the header has 5'],
    ['with too many fields', csv(header, 'view,1,,,,'), 'Invalid format: record has 6 fields where the header has 5'],
    ['that is not UTF-8', csv(header, Buffer.from('\xff', 'latin1')), 'Invalid format: record is not valid UTF-8'],
    ['with a NUL', csv(header, `view,${timestamp},,\0,`), 'Invalid format: record has a NUL character'],
    ['without a timestamp', csv(header, 'view,,,,'), 'Missing required field: timestamp_ms', 'timestamp_ms'],
    ['without a type', csv(header, `,${timestamp},,,`), 'Missing required field: event_type', 'event_type'],
    [
      'with a date for a timestamp',
      csv(header, 'view,2026-01-01,,,'),
      'Invalid field: timestamp_ms must be a number: Unix time in milliseconds',
      'timestamp_ms',
    ],
    [
      'with a timestamp that a spreadsheet has rounded',
      csv(header, 'view,1.76723E+12,,,'),
      'Invalid field: timestamp_ms was rounded by a spreadsheet: format the column as a number without decimals',
      'timestamp_ms',
    ],
    [
      'with a timestamp that a spreadsheet has rounded in a language with a decimal comma',
      csv(header, 'view,"1,76723E+12",,,'),
      'Invalid field: timestamp_ms was rounded by a spreadsheet: format the column as a number without decimals',
      'timestamp_ms',
    ],
    ...['event_id', 'user_id', 'anonymous_id', 'session_id'].flatMap((field) =>
      ['1.23457E+17', '1,23457E+17', '1E+15'].map((cell): [string, ReturnType<typeof imported>, string, string] => [
        `with ${cell} as the ${field}, which a spreadsheet has rounded`,
        imported(`view;${timestamp};${cell};`, {
          format: 'csv',
          delimiter: ';',
          columns: ['event_type', 'timestamp_ms', field, 'url'],
        }),
        `Invalid field: ${field} was rounded by a spreadsheet: format the column as text`,
        field,
      ]),
    ),
    [
      'with a quoted id that a spreadsheet has rounded, in quotes because the comma separates cells, too',
      csv('event_type,timestamp_ms,user_id', `view,${timestamp},"1,23457E+17"`),
      'Invalid field: user_id was rounded by a spreadsheet: format the column as text',
      'user_id',
    ],
    [
      'with seconds for a timestamp',
      csv(header, 'view,1767000000,,,'),
      'Invalid field: timestamp_ms must be Unix time in milliseconds, not before 1971',
      'timestamp_ms',
    ],
    [
      'with a time in the future',
      csv(header, `view,${receivedAt + 86_400_001},,,`),
      'Invalid field: timestamp_ms must not be more than 24 hours in the future',
      'timestamp_ms',
    ],
    [
      'of another site',
      csv(header, `view,${timestamp},blog,,`),
      "Invalid field: site_id must be absent or the import's site",
      'site_id',
    ],
    [
      'with a long url',
      csv(header, `view,${timestamp},,${'x'.repeat(2_049)},`),
      'Invalid field: url exceeds maximum length of 2048',
      'url',
    ],
    [
      'with properties that are not JSON',
      csv(header, `view,${timestamp},,,{`),
      'Invalid field: properties must be a JSON object',
      'properties',
    ],
    [
      'with properties that are no object',
      csv(header, `view,${timestamp},,,1`),
      'Invalid field: properties must be an object',
      'properties',
    ],
    [
      'with properties that are a long number, beside a property of its own',
      csv('event_type,timestamp_ms,properties,properties.a', `view,${timestamp},12345678901234567890,1`),
      'Invalid field: properties must be an object',
      'properties',
    ],
    [
      'with a long property',
      csv(header, `view,${timestamp},,,"{""a"":""${'x'.repeat(2_049)}""}"`),
      'Invalid field: properties.a exceeds maximum length of 2048',
      'properties.a',
    ],
    ['that is not JSON', json('{"a":'), 'Invalid format: record is not valid JSON'],
    ['that is no object', json('[1]'), 'Invalid format: record must be a JSON object'],
    ['that is a long number', json('0.1234567890123456789'), 'Invalid format: record must be a JSON object'],
    ['that is null', json('null'), 'Invalid format: record must be a JSON object'],
    ['with an unknown member', json(`{${object},"colour":1}`), 'Invalid field: colour is not known', 'colour'],
    [
      'with a member that Sluice sets',
      json(`{${object},"undated":1}`),
      'Invalid field: undated is not known',
      'undated',
    ],
    [
      'with a member __proto__',
      json(`{${object},"__proto__":1}`),
      'Invalid field: __proto__ is not known',
      '__proto__',
    ],
    [
      'with two timestamps',
      json(`{${object},"timestamp":1}`),
      'Invalid field: timestamp must not be given together with timestamp_ms',
      'timestamp',
    ],
    [
      'with a text for a timestamp',
      json('{"event_type":"view","timestamp_ms":"1767000000000"}'),
      'Invalid field: timestamp_ms must be a number: Unix time in milliseconds',
      'timestamp_ms',
    ],
    ['with a number for a text', json(`{${object},"url":1}`), 'Invalid field: url must be a string', 'url'],
    [
      'with a row of more than 256 KiB',
      json(`{${object},"properties":{"l":[${'"aaaaaaaaaa",'.repeat(20_000)}1]}}`),
      'Event is larger than 262144 bytes when it is stored',
    ],
  ])('%s', (...[, { value, error }, message, field]) => {
    expect(value).toBeUndefined()
    expect(error).toEqual({ line: 9, record: 7, message, ...(field === undefined ? {} : { field }) })
  })

  test('that could not be found, for the reason of that', () => {
    const parse = recordParser({ format: 'ndjson' }, 'events')
    expect(encodeImportedEvent({ number: 1, line: 2, error: 'x' }, parse, job)).toEqual({
      error: { line: 2, record: 1, message: 'x' },
    })
  })
})

/** What `/collect` makes of an event: its row, or the message of its error. */
function collected(text: string): unknown {
  try {
    return JSON.parse(encodeEvent(parseExactly(text), { receivedAt, environment: 'prod' }).line)
  } catch (error) {
    if (error instanceof AppError) return error.message.replace('timestamp', 'timestamp_ms')
    throw error
  }
}

const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 70 }), fc.constantFrom("'=1", '=1', '-1', 'de', 'tablet'))
const fields = fc.record(
  {
    event_id: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 }),
    event_type: text,
    timestamp: fc.integer({ min: 0, max: receivedAt + 2 * 86_400_000 }),
    session_id: text,
    user_id: text,
    url: text,
    country: text,
    device_type: text,
    properties: fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue(), { maxKeys: 4 }),
  },
  { requiredKeys: ['event_id', 'timestamp'] },
)

test('a record is accepted, normalised and refused as /collect does it, from JSON and from our CSV', () => {
  fc.assert(
    fc.property(fields, (fields) => {
      const event = JSON.stringify({ ...fields, site_id: 'shop' })
      const expected = collected(event)
      const fromJson = json(event)
      expect(fromJson.error?.message ?? rowOf(fromJson)).toEqual(expected)
      // CSV has no halves of surrogate pairs, and NUL fails the record as a whole.
      if (!event.isWellFormed() || event.includes('\\u0000') || /\\ud[89a-f]/.test(event)) return
      const cells = Object.entries(fields).map(([name, value]) => [
        name === 'timestamp' ? 'timestamp_ms' : name,
        typeof value === 'object' ? JSON.stringify(value) : guardCell(String(value)),
      ])
      const record = cells.map(([, cell = '']) => `"${cell.replaceAll('"', '""')}"`).join(',')
      const header = cells.map(([name = '']) => name)
      if (!header.includes('event_type')) return
      const fromCsv = imported(record, { format: 'csv', delimiter: ',', columns: header })
      expect(fromCsv.error?.message ?? rowOf(fromCsv)).toEqual(expected)
    }),
    { numRuns: 1_000 },
  )
})
