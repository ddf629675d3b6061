import { describe, expect, test } from '@jest/globals'
import type { ImportType } from '@sluice/contracts/imports'
import { resolveColumns } from './csv-header.ts'

const events = 'event_id,site_id,event_type,timestamp_ms,session_id,user_id,url,country'
const users = 'user_id,email,name,company,plan'
const knownOfEvents =
  'Known columns: site_id, event_type, timestamp_ms, event_id, session_id, user_id, anonymous_id, url, referrer, country, device_type, properties, properties.<name>'
const knownOfUsers = 'Known columns: user_id, email, name, company, plan'

describe('the columns are accepted', () => {
  test.each<[string, ImportType, string]>([
    ['of the interface, for events', 'events', events],
    ['of the interface, for users', 'users', users],
    ['in any order', 'events', 'timestamp_ms,event_type'],
    ['of properties', 'events', `${events},properties,properties.plan,properties.__proto__,properties.a b`],
  ])('%s', (_what, type, header) => expect(resolveColumns(header.split(','), type)).toEqual(header.split(',')))

  test('timestamp as timestamp_ms', () =>
    expect(resolveColumns(['timestamp', 'event_type'], 'events')).toEqual(['timestamp_ms', 'event_type']))

  test('of our own exports, of which some are ignored', () => {
    const exported = `${events},referrer,device_type,anonymous_id,environment,received_at,properties`.split(',')
    const ignored = ['environment', 'received_at']
    expect(resolveColumns(exported, 'events')).toEqual(
      exported.map((name) => (ignored.includes(name) ? undefined : name)),
    )
    expect(resolveColumns([...users.split(','), 'first_seen', 'last_seen', 'event_count'], 'users')).toEqual([
      ...users.split(','),
      undefined,
      undefined,
      undefined,
    ])
  })
})

test.each<[string, ImportType, string, string]>([
  ['an unknown one', 'events', `${events},colour`, `column "colour" is not known. ${knownOfEvents}`],
  ['one of users', 'events', `${events},email`, `column "email" is not known. ${knownOfEvents}`],
  ['one that Sluice sets', 'events', `${events},undated`, `column "undated" is not known. ${knownOfEvents}`],
  [
    'a property without a name',
    'events',
    `${events},properties.`,
    `column "properties." is not known. ${knownOfEvents}`,
  ],
  ['a property of users', 'users', `${users},properties.a`, `column "properties.a" is not known. ${knownOfUsers}`],
  ['one of events', 'users', `${users},received_at`, `column "received_at" is not known. ${knownOfUsers}`],
  ['one without a name', 'users', `${users},`, `column "" is not known. ${knownOfUsers}`],
  ['a name of an object', 'users', `${users},__proto__`, `column "__proto__" is not known. ${knownOfUsers}`],
  ['a missing event_type', 'events', 'timestamp_ms', `column "event_type" is missing. ${knownOfEvents}`],
  ['a missing timestamp_ms', 'events', 'event_type,url', `column "timestamp_ms" is missing. ${knownOfEvents}`],
  ['a missing user_id', 'users', 'email', `column "user_id" is missing. ${knownOfUsers}`],
  ['a field in two columns', 'events', `${events},timestamp`, 'two columns hold "timestamp_ms"'],
  [
    'a long name, which is cut',
    'users',
    `user_id,${'😀'.repeat(100)}`,
    `column "${'😀'.repeat(64)}" is not known. ${knownOfUsers}`,
  ],
])('a header is refused for %s', (_what, type, header, problem) => {
  expect(() => resolveColumns(header.split(','), type)).toThrow(
    expect.objectContaining({ code: 'invalid_format', message: `Invalid format: ${problem}` }),
  )
})
