import { expect, test } from '@jest/globals'
import { openRedis } from './open.ts'
import { parseRedisUrl } from './redis-url.ts'

const mistakesIn = (url: string): string => {
  try {
    parseRedisUrl(url)
  } catch (error) {
    return String(error)
  }
  return 'none'
}

test('a URL with nothing but a host has defaults for the rest', () => {
  expect(parseRedisUrl('redis://cache.example')).toEqual({
    host: 'cache.example',
    port: 6379,
    username: undefined,
    password: undefined,
    db: 0,
    tls: undefined,
    prefix: 'sluice:',
  })
})

test('a URL has TLS, a percent-encoded user and password, a database, a prefix and an IPv6 address', () => {
  expect(parseRedisUrl('rediss://us%40er:p%3Aa%2Fs:s@[::1]:6380/15?prefix=a%26b:')).toEqual({
    host: '::1',
    port: 6380,
    username: 'us@er',
    password: 'p:a/s:s',
    db: 15,
    tls: { ca: undefined },
    prefix: 'a&b:',
  })
  expect(parseRedisUrl('redis://:secret@h/')).toMatchObject({ username: undefined, password: 'secret', db: 0 })
})

test('a URL names Sentinels, their primary, its user and password, a database and a prefix', () => {
  expect(parseRedisUrl('redis+sentinel://us%40er:p%3Aa@s1,s2:26380,[::1]:1/main?db=3&prefix=a%26b:')).toEqual({
    sentinels: [
      { host: 's1', port: 26379 },
      { host: 's2', port: 26380 },
      { host: '::1', port: 1 },
    ],
    name: 'main',
    username: 'us@er',
    password: 'p:a',
    db: 3,
    prefix: 'a&b:',
  })
  expect(parseRedisUrl('redis+sentinel://:secret@s1/main')).toMatchObject({
    username: undefined,
    password: 'secret',
    db: 0,
    prefix: 'sluice:',
  })
})

test.each([
  ['http://h', 'expected redis://host:6379'],
  ['redis:h', 'expected redis://host:6379'],
  ['redis://h:99999', 'expected redis://host:6379'],
  ['redis://', 'the host is missing'],
  ['redis://h:0', 'the port'],
  ['redis://h/sluice', 'the database is not a number'],
  ['redis://h/1/2', 'the database is not a number'],
  ['redis://h/1#x', '"#" is not percent-encoded'],
  ['redis://user@h', 'the password is missing'],
  ['redis://:%zz@h', 'the password is not percent-encoded'],
  ['redis://h?db=1', 'unknown parameter (known: ca, prefix)'],
  ['redis://h?prefix=a&prefix=b', '"prefix" is given twice'],
  ['redis://h?ca=/x.pem', '"ca" needs rediss:'],
  ['rediss://h?ca=/does/not/exist.pem', '/does/not/exist.pem'],
  ['rediss://h?ca=/dev/null', 'no PEM certificate'],
  ['redis+sentinel:h', 'expected redis+sentinel://'],
  ['redis+sentinel://h/main#x', 'expected redis+sentinel://'],
  ['redis+sentinel://h', 'the name of the primary is missing'],
  ['redis+sentinel://h/main/2', 'the name of the primary'],
  ['redis+sentinel:///main', 'Sentinel 1 is not host:port'],
  ['redis+sentinel://h,/main', 'Sentinel 2 is not host:port'],
  ['redis+sentinel://h:0/main', 'the port of Sentinel 1'],
  ['redis+sentinel://h/main?db=x', '"db" is not a number'],
  ['redis+sentinel://h/main?ca=x', 'unknown parameter (known: db, prefix)'],
  ['redis+sentinel://user@h/main', 'the password is missing'],
  ['redis+sentinel://:%zz@h/main', 'the password is not percent-encoded'],
])('%s: %s', (url, mistake) => {
  expect(mistakesIn(url)).toContain('SLUICE_REDIS_URL')
  expect(mistakesIn(url)).toContain(mistake)
})

test('one error lists all mistakes', () => {
  const mistakes = mistakesIn('redis://user@h:0/x?db=1&ca=x')
  for (const mistake of ['port', 'database', 'password', 'parameter', 'rediss:']) expect(mistakes).toContain(mistake)
})

test.each([
  'redis://user:sec/ret@h',
  'redis://user:sec#ret@h',
  'redis://user:sec?ret@h',
  'redis://user:sec%ret@h',
  'redis://user:sec@ret@h/x?y=1',
  'redis+sentinel://user:sec/ret@h/main',
  'redis+sentinel://user:sec#ret@h/main',
  'redis+sentinel://user:sec?ret@h/main',
  'redis+sentinel://user:sec%ret@h/main',
])('a mistake does not show the password: %s', (url) => {
  expect(mistakesIn(url)).not.toBe('none')
  expect(mistakesIn(url)).not.toMatch(/sec|ret@/)
})

test('openRedis throws the error of a wrong URL', () => {
  const logger = { debug: () => undefined, info: () => undefined, warn: () => undefined }
  expect(() => openRedis('redis://h/x', { logger })).toThrow('SLUICE_REDIS_URL: the database is not a number')
  expect(() => openRedis('file:data', { logger })).toThrow('SLUICE_REDIS_URL: expected redis://')
})
