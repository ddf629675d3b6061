import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import type { Credential } from '@sluice/access/credential'
import { invalidApiKey, unavailable } from '@sluice/runtime/errors'
import { authenticateSession, hashToken, readCredential, rejectCrossSite } from './authenticate.ts'

const request = (headers: Record<string, string>, method = 'POST') =>
  ({ method, headers }) as unknown as IncomingMessage

describe('the credential of a request', () => {
  const credentialOf = (headers: Record<string, string>, query = '') =>
    readCredential(request(headers), new URLSearchParams(query))

  test('comes from the header before the query, and from the query before the cookie', () => {
    const cookie = 'theme=dark; session=token'
    expect(credentialOf({ authorization: 'Bearer header', cookie }, 'api_key=query')).toStrictEqual({ key: 'header' })
    expect(credentialOf({ cookie }, 'api_key=query')).toStrictEqual({ key: 'query' })
    expect(credentialOf({ cookie }, 'site_id=a')).toStrictEqual({ tokens: ['token'] })
    expect(credentialOf({})).toBeUndefined()
    expect(credentialOf({ cookie: 'theme=dark' })).toBeUndefined()
  })

  test('is every cookie with the form of a token, four at most, whatever else has the name of the session cookie', () => {
    const token = 'Zm9yXzI1Nl9iaXRzLWFzLWEtdG9rZW4taGFzLXRoZW0'
    const flask = 'session=eyJ1c2VyX2lkIjo0Mn0.ZyX1aA.x2m0nB0o8pXk7qJtYwVbUeRdC1E'
    const tooLong = `session=${token}0`
    const others = Array.from({ length: 4 }, (_, n) => `${n}`.repeat(43))
    expect(credentialOf({ cookie: `${flask}; session=${token}` })).toStrictEqual({ tokens: [token] })
    expect(credentialOf({ cookie: `${tooLong};session=${token} ;${flask}` })).toStrictEqual({ tokens: [token] })
    const cookie = [token, ...others].map((value) => `session=${value}`).join(';')
    expect(credentialOf({ cookie })).toStrictEqual({ tokens: [token, ...others.slice(0, 3)] })
    expect(credentialOf({ cookie: `my_session=${token}; ${flask}` })).toStrictEqual({ tokens: [flask.slice(8)] })
  })

  test('is an empty value of the first source, even when a later source has a value', () => {
    expect(credentialOf({ authorization: 'Bearer', cookie: 'session=token' })).toStrictEqual({ key: '' })
    expect(credentialOf({ cookie: 'session=token' }, 'api_key=')).toStrictEqual({ key: '' })
    expect(credentialOf({ cookie: 'session=' })).toStrictEqual({ tokens: [''] })
  })

  test('is read from the Bearer scheme in any letter case and from no other scheme', () => {
    const cookie = 'session=token'
    expect(credentialOf({ authorization: 'Basic YTpi', cookie })).toStrictEqual({ tokens: ['token'] })
    expect(credentialOf({ authorization: 'bEARER  key ' })).toStrictEqual({ key: 'key' })
  })
})

describe('a session', () => {
  const credential: Credential = {
    keyId: 'key_1',
    name: 'test',
    environment: 'prod',
    scopes: ['stats:read'],
    siteIds: null,
    rateLimits: null,
    allowedOrigins: null,
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

  test('has the credential of its key and is looked up by the hash of its token', async () => {
    const lookedUpHashes: string[] = []
    const deps = { sessions, keys: keys((hash) => (lookedUpHashes.push(hash), credential)) }
    expect(await authenticateSession(['token'], deps)).toStrictEqual({
      credential,
      session: { tokenHash: hashToken('token'), expiresAt: 5 },
    })
    expect(lookedUpHashes).toStrictEqual(['hash of the key'])
  })

  test('is found behind the cookies of other applications', async () => {
    const deps = { sessions, keys: keys(() => credential) }
    expect(await authenticateSession(['another', 'token'], deps)).toMatchObject({
      session: { tokenHash: hashToken('token') },
    })
  })

  test('is rejected when it is unknown, when its key is invalid, and while Redis is unavailable', async () => {
    const withInvalidKey = { sessions, keys: keys(() => { throw invalidApiKey() }) } // prettier-ignore
    await expect(authenticateSession(['token'], withInvalidKey)).rejects.toMatchObject({ code: 'unauthenticated' })
    const deps = { sessions, keys: keys(() => credential) }
    await expect(authenticateSession(['other'], deps)).rejects.toMatchObject({ code: 'unauthenticated' })
    const withoutRedis = { ...deps, sessions: { find: () => Promise.reject(unavailable('Redis is unavailable')) } }
    await expect(authenticateSession(['token'], withoutRedis)).rejects.toMatchObject({ code: 'unavailable' })
  })
})

describe('a request with a session cookie', () => {
  const rejectionMessage = (headers: Record<string, string>, method?: string, host = 'stats.example:8081') => {
    try {
      rejectCrossSite(request(headers, method), host)
      return undefined
    } catch (error) {
      return (error as Error).message
    }
  }

  test.each([
    ['neither header, as scripts send it', {}],
    ['Sec-Fetch-Site: same-origin', { 'sec-fetch-site': 'same-origin' }],
    [
      'Sec-Fetch-Site: same-origin behind a proxy that changes Host',
      { 'sec-fetch-site': 'same-origin', origin: 'https://public.example' },
    ],
    ['the origin of the service', { origin: 'https://stats.example:8081' }],
    ['the origin of the service behind a proxy that terminates TLS', { origin: 'http://STATS.example:8081' }],
  ])('is accepted with %s', (_, headers) => expect(rejectionMessage(headers)).toBeUndefined())

  test('is accepted when a proxy adds the default port to the host', () => {
    const headers = { origin: 'https://stats.example' }
    expect(rejectionMessage(headers, 'POST', 'stats.example:443')).toBeUndefined()
    expect(rejectionMessage(headers, 'POST', 'stats.example:444')).toBe('Cross-site request refused')
  })

  test('is accepted whatever the case of the letters of the host is', () => {
    expect(rejectionMessage({ origin: 'https://stats.example' }, 'POST', 'Stats.Example')).toBeUndefined()
  })

  test.each([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['another host of the site', { 'sec-fetch-site': 'same-site' }],
    ['no site (Sec-Fetch-Site: none)', { 'sec-fetch-site': 'none' }],
    ['a foreign origin', { origin: 'https://evil.example' }],
    ['another port', { origin: 'https://stats.example' }],
    ['a page without an origin', { origin: 'null' }],
    [
      'another site whose origin has the own host',
      { 'sec-fetch-site': 'cross-site', origin: 'https://stats.example:8081' },
    ],
  ])('is rejected from %s, except for GET and HEAD', (_, headers) => {
    for (const method of ['POST', 'PUT', 'DELETE'])
      expect(rejectionMessage(headers, method)).toBe('Cross-site request refused')
    for (const method of ['GET', 'HEAD']) expect(rejectionMessage(headers, method)).toBeUndefined()
  })
})
