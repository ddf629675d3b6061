import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import { invalidApiKey, unavailable } from '@sluice/contracts/errors'
import { authenticateSession, hashToken, presented, refuseCrossSite } from './authenticate.ts'
import type { Credential } from './route.ts'

const request = (headers: Record<string, string>, method = 'POST') =>
  ({ method, headers }) as unknown as IncomingMessage

describe('what a request presents', () => {
  const present = (headers: Record<string, string>, query = '') =>
    presented(request(headers), new URLSearchParams(query))

  test('the header wins over the query, the query over the cookie', () => {
    const cookie = 'theme=dark; session=token'
    expect(present({ authorization: 'Bearer header', cookie }, 'api_key=query')).toStrictEqual({ key: 'header' })
    expect(present({ cookie }, 'api_key=query')).toStrictEqual({ key: 'query' })
    expect(present({ cookie }, 'site_id=a')).toStrictEqual({ token: 'token' })
    expect(present({})).toBeUndefined()
    expect(present({ cookie: 'theme=dark' })).toBeUndefined()
  })

  test('an empty winner still wins', () => {
    expect(present({ authorization: 'Bearer', cookie: 'session=token' })).toStrictEqual({ key: '' })
    expect(present({ cookie: 'session=token' }, 'api_key=')).toStrictEqual({ key: '' })
    expect(present({ cookie: 'session=' })).toStrictEqual({ token: '' })
  })

  test('another scheme is ignored, Bearer in any case is not', () => {
    const cookie = 'session=token'
    expect(present({ authorization: 'Basic YTpi', cookie })).toStrictEqual({ token: 'token' })
    expect(present({ authorization: 'bEARER  key ' })).toStrictEqual({ key: 'key' })
  })
})

describe('a session', () => {
  const credential: Credential = {
    keyId: 'key_1',
    environment: 'prod',
    scopes: ['stats:read'],
    siteIds: null,
    rateLimits: null,
    expiresAt: null,
  }
  const keys = (authenticateHash: (hash: string) => Credential) => ({
    authenticate: () => {
      throw new Error('no key was presented')
    },
    authenticateHash,
  })
  const stored = { keyHash: 'hash of the key', expiresAt: 5 }
  const sessions = { find: (hash: string) => Promise.resolve(hash === hashToken('token') ? stored : undefined) }

  test('is its key’s, looked up by the token’s hash', async () => {
    const asked: string[] = []
    const deps = { sessions, keys: keys((hash) => (asked.push(hash), credential)) }
    expect(await authenticateSession('token', deps)).toStrictEqual({
      credential,
      session: { hash: hashToken('token'), expiresAt: 5 },
    })
    expect(asked).toStrictEqual(['hash of the key'])
  })

  test('is refused when unknown, when its key is no good any more, and when it can’t be told', async () => {
    const dead = { sessions, keys: keys(() => { throw invalidApiKey() }) } // prettier-ignore
    await expect(authenticateSession('token', dead)).rejects.toMatchObject({ status: 401 })
    const deps = { sessions, keys: keys(() => credential) }
    await expect(authenticateSession('other', deps)).rejects.toMatchObject({ status: 401 })
    const away = { ...deps, sessions: { find: () => Promise.reject(unavailable('Redis is away')) } }
    await expect(authenticateSession('token', away)).rejects.toMatchObject({ status: 503 })
  })
})

describe('a request on a cookie', () => {
  const refusal = (headers: Record<string, string>, method?: string, host = 'stats.example:8081') => {
    try {
      refuseCrossSite(request(headers, method), host)
      return undefined
    } catch (error) {
      return (error as Error).message
    }
  }

  test.each([
    ['no header, as scripts send it', {}],
    ['Sec-Fetch-Site: same-origin', { 'sec-fetch-site': 'same-origin' }],
    ['the own origin', { origin: 'https://stats.example:8081' }],
    ['the own origin in front of which TLS ends', { origin: 'http://STATS.example:8081' }],
  ])('passes with %s', (_, headers) => {
    expect(refusal(headers)).toBeUndefined()
  })

  test('passes where a proxy names the port that goes without saying', () => {
    const headers = { origin: 'https://stats.example' }
    expect(refusal(headers, 'POST', 'stats.example:443')).toBeUndefined()
    expect(refusal(headers, 'POST', 'stats.example:444')).toBe('Cross-site request refused')
  })

  test.each([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['another host of the site', { 'sec-fetch-site': 'same-site' }],
    ['nowhere', { 'sec-fetch-site': 'none' }],
    ['a foreign origin', { origin: 'https://evil.example' }],
    ['another port', { origin: 'https://stats.example' }],
    ['a page without an origin', { origin: 'null' }],
    [
      'a foreign origin that claims to be the same',
      { 'sec-fetch-site': 'same-origin', origin: 'https://evil.example' },
    ],
  ])('is refused from %s, and may still read', (_, headers) => {
    for (const method of ['POST', 'PUT', 'DELETE']) expect(refusal(headers, method)).toBe('Cross-site request refused')
    for (const method of ['GET', 'HEAD']) expect(refusal(headers, method)).toBeUndefined()
  })
})
