import { describe, expect, test } from '@jest/globals'
import type { FileLayout } from './file-record.ts'
import { parseImportedUser } from './parse-imported-user.ts'
import { recordParser } from './parse-record.ts'

function user(text: string, layout: FileLayout): ReturnType<typeof parseImportedUser> {
  return parseImportedUser({ number: 1, line: 2, bytes: Buffer.from(text) }, recordParser(layout, 'users'))
}

const csv = (header: string, record: string) =>
  user(record, { format: 'csv', delimiter: ';', columns: header.split(';') })
const json = (record: string) => user(record, { format: 'json' })
const ada = { user_id: 'u1', email: '', name: 'Ada', company: '', plan: '' }

test('a user has all fields, of which absent ones are empty', () => {
  expect(csv('name;user_id', 'Ada;u1')).toEqual({ value: ada })
  expect(csv('name;email;user_id;first_seen;event_count', 'Ada;;u1;1;2')).toEqual({ value: ada })
  expect(json('{"user_id":"u1","name":"Ada","email":null,"plan":"","last_seen":1}')).toEqual({ value: ada })
  expect(csv('name;user_id', `"'+49 ""1""";u1`)).toEqual({ value: { ...ada, name: '+49 "1"' } })
  expect(json('{"user_id":"u1","name":"\\ud800"}')).toEqual({ value: { ...ada, name: '\uFFFD' } })
  expect(json(`{"user_id":"u1","name":"${'😀'.repeat(256)}"}`).error).toBeUndefined()
})

describe('a user is refused', () => {
  test.each<[string, ReturnType<typeof parseImportedUser>, string, string]>([
    ['without an id', csv('name;user_id', 'Ada;'), 'user_id', 'Missing required field: user_id'],
    [
      'with a long field',
      csv('name;user_id', `${'é'.repeat(257)};u1`),
      'name',
      'Invalid field: name exceeds maximum length of 256',
    ],
    ['with a number', json('{"user_id":1}'), 'user_id', 'Invalid field: user_id must be a string'],
    [
      'with a NUL',
      json('{"user_id":"u1","plan":"\\u0000"}'),
      'plan',
      'Invalid field: plan must not contain NUL characters',
    ],
    ['with an unknown member', json('{"user_id":"u1","age":1}'), 'age', 'Invalid field: age is not known'],
  ])('%s', (_what, { error }, field, message) => {
    expect(error).toEqual({ line: 2, record: 1, field, message })
  })
})
