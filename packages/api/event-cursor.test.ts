import { describe, expect, test } from '@jest/globals'
import { latestMs } from '@sluice/contracts/stats'
import { decodeEventCursor, encodeEventCursor } from './event-cursor.ts'

test.each([
  { timestamp: 0, eventId: 'a', environment: 'prod' },
  { timestamp: latestMs, eventId: '😀'.repeat(64), environment: 'dev' },
  { timestamp: 1_715_774_400_000, eventId: '"\\\t?>/+=&', environment: 'prod' },
] as const)('the cursor of %j is read as it was written, and is safe in a URL', (position) => {
  const cursor = encodeEventCursor(position)
  expect(cursor).toMatch(/^[\w-]+$/)
  expect(decodeEventCursor(cursor)).toStrictEqual(position)
})

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('is no cursor:', () => {
  test.each([
    ['text', 'abc'],
    ['nothing', ''],
    ['a cursor with another character', `${encode([1, 'a', 'prod'])}!`],
    ['a cursor in base64', Buffer.from('[1,"??>","prod"]').toString('base64')],
    ['an object', encode({ timestamp: 1 })],
    ['null', encode(null)],
    ['a list that is too short', encode([1, 'a'])],
    ['a list that is too long', encode([1, 'a', 'prod', 1])],
    ['a fraction of a millisecond', encode([1.5, 'a', 'prod'])],
    ['a negative time', encode([-1, 'a', 'prod'])],
    ['a time after the last', encode([latestMs + 1, 'a', 'prod'])],
    ['a text as the time', encode(['1', 'a', 'prod'])],
    ['a number as the id', encode([1, 1, 'prod'])],
    ['an id with NUL', encode([1, 'a\0', 'prod'])],
    ['an unknown environment', encode([1, 'a', 'test'])],
  ])('%s', (_, cursor) => expect(decodeEventCursor(cursor)).toBeUndefined())
})
