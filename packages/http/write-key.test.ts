import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { generateKey } from '@sluice/access/api-key'
import { findWriteKey, readWriteKey } from './authenticate.ts'

const key = generateKey('prod')
const other = generateKey('prod')

describe('the key outside of a body of Segment', () => {
  const basic = (pair: string): string => `Basic ${Buffer.from(pair, 'latin1').toString('base64')}`
  const read = (authorization: string | undefined, search = '') => {
    const request = new IncomingMessage(new Socket())
    if (authorization !== undefined) request.headers.authorization = authorization
    return readWriteKey(request, new URLSearchParams(search))
  }

  test.each<[string, string]>([
    ['Basic', basic(`${key}:`)],
    ['Basic in capitals and with more spaces', basic(`${key}:`).replace('Basic ', 'BASIC   ')],
    ['Basic without the padding of base64', basic(`${key}:`).replace(/=+$/, '')],
    ['Bearer', `bearer ${key}`],
  ])('is read from %s, and wins over the query', (_name, authorization) => {
    expect(read(authorization, `api_key=${other}`)).toBe(key)
  })

  test.each<[string, string]>([
    ['a password', basic(`${key}:password`)],
    ['a password that is a colon', basic(`${key}::`)],
    ['a password that begins with a colon', basic(`${key}::password`)],
    ['no colon', basic(key)],
    ['no user', basic(':')],
    ['nothing', 'Basic '],
    ['the scheme alone', 'Basic'],
    ['what is no base64', 'Basic \u00e4%%%'],
    ['a user of 12,000 characters without a colon', basic('x'.repeat(12_000))],
  ])('is none, and not that of the query, in Basic with %s', (_name, authorization) => {
    expect(read(authorization, `api_key=${key}`)).toBe('')
  })

  test.each([`${key}\0`, `\0${key}`, `${key}\u00e4`, ` ${key}`])('is read with all its characters: %j', (user) => {
    expect(read(basic(`${user}:`))).toBe(user)
  })

  test('is read from the query, the first of several, where no scheme is known', () => {
    expect(read(undefined, `api_key=${key}&api_key=${other}`)).toBe(key)
    expect(read('Digest username="x"', `api_key=${key}`)).toBe(key)
    expect(read('Basics x', `api_key=${key}`)).toBe(key)
    expect(read(undefined, 'api_key=')).toBe('')
    expect(read(undefined)).toBeUndefined()
    expect(read('Digest x')).toBeUndefined()
  })
})

describe('the key in a body of Segment', () => {
  const find = (body: string | Buffer) => findWriteKey(Buffer.from(body))

  test('is not looked for behind more members without a key than a batch has messages', () => {
    const valueless = (count: number) => `[${'{"writeKey":1},'.repeat(count)}{"writeKey":"${key}"}]`
    expect(find(valueless(2_000))).toBe(key)
    expect(find(valueless(4_000))).toBeUndefined()
  })

  test.each<[string, string]>([
    ['a key with an escape', `{"writeKey":"\\u0073${key.slice(1)}"}`],
    ['a name with an escape', `{"\\u0077riteKey":"${key}"}`],
    ['another case', `{"writekey":"${key}","WRITEKEY":"${key}"}`],
    ['a list', `{"writeKey":["${key}"]}`],
    ['a longer text', `{"writeKey":"${key}x"}`],
    ['a NUL', `{"writeKey":"${key}\0"}`],
    ['a NUL before', `{"writeKey":"\0${key}"}`],
    ['a wrong checksum', `{"writeKey":"${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}"}`],
    ['a text of 100,000 characters', `{"writeKey":"${'x'.repeat(100_000)}"}`],
    ['no end', `{"writeKey":"${key}`],
    ['nothing after the name', '{"writeKey"'],
  ])('is none in a member with %s', (_name, body) => expect(find(body)).toBeUndefined())

  test('is found beside members that hold no key, and after bytes that are no UTF-8', () => {
    expect(find(`{"writeKey":"of Segment","a":{"writeKey":null},"writeKey" : "${key}"}`)).toBe(key)
    expect(find(Buffer.concat([Buffer.from([0xff, 0xc3, 0x00]), Buffer.from(`"writeKey":"${key}"`)]))).toBe(key)
  })

  test('is refused when another one is in the body, in whatever member', () => {
    const bodies = [
      { writeKey: key, properties: { writeKey: other } },
      { batch: [{ writeKey: key }, { writeKey: key }, { writeKey: other }] },
    ]
    for (const body of bodies) {
      expect(() => find(JSON.stringify(body))).toThrow('Invalid field: writeKey must be the same in the whole body')
    }
  })
})
