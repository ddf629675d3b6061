import { expect, test } from '@jest/globals'
import { type EventColumnName, eventColumns, type EventInput, type EventRow, textLengthsMax } from './event-columns.ts'

type Equals<A, B> = [A, B] extends [B, A] ? true : false

test('the keys of EventRow are the names of the columns, which the type checker compares', () => {
  const areEqual: Equals<keyof EventRow, EventColumnName> = true
  expect(areEqual).toBe(true)
})

test('every field that a client may send has a column of its name, which the type checker compares', () => {
  const areColumns: Equals<keyof EventInput, keyof EventInput & EventColumnName> = true
  expect(areColumns).toBe(true)
})

test('names of columns are unique', () => {
  expect(new Set(eventColumns.map(({ name }) => name)).size).toBe(eventColumns.length)
})

test('the lengths of texts are those that the reference of the HTTP interface states', () => {
  expect(textLengthsMax).toStrictEqual({
    site_id: 64,
    event_type: 64,
    event_id: 64,
    session_id: 64,
    user_id: 64,
    anonymous_id: 64,
    url: 2_048,
    referrer: 2_048,
  })
})
