import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { parseCookie } from 'cookie'
import type { Access } from '@sluice/access/access'
import { keyEnvironment, keyLength } from '@sluice/access/api-key'
import type { Credential, Session } from '@sluice/access/credential'
import { eventLimits } from '@sluice/contracts/event-limits'
import { AppError, invalidApiKey, invalidField } from '@sluice/runtime/errors'

/** Name of the cookie that holds a session's token. */
export const sessionCookie = 'session'

/** A session with the credential of its key. */
interface Authenticated {
  credential: Credential
  session: Session
}

/**
 * The credential in a request: a key, or the values that may be the token of a session. The header wins over the query,
 * the query over the cookie (docs/http-interface.md#credentials).
 */
export type PresentedCredential = { key: string } | { tokens: readonly string[] } | undefined

/** An Authorization scheme other than Bearer is ignored. */
export function readCredential(request: IncomingMessage, query: URLSearchParams): PresentedCredential {
  const key = readBearerToken(request.headers.authorization) ?? (query.size > 0 ? query.get('api_key') : null)
  if (key !== null) return { key }
  const tokens = readTokens(request)
  return tokens.length === 0 ? undefined : { tokens }
}

/**
 * The values of the session cookie that have the form of a token, at most four, else its first value: a browser also
 * sends the cookies of this name that other applications have set for a parent domain, and theirs may have this form.
 */
function readTokens({ headers: { cookie } }: IncomingMessage): string[] {
  if (cookie === undefined) return []
  const tokens = [...cookie.matchAll(tokenCookies)].flatMap(([, token]) => token ?? [])
  if (tokens.length > 0) return tokens.slice(0, tokensMax)
  const first = parseCookie(cookie)[sessionCookie]
  return first === undefined ? [] : [first]
}

/** Each value that is looked up is one command of Redis. */
const tokensMax = 4

/** 256 bits in base64url, as `POST /api/v1/session` makes them. */
const tokenCookies = new RegExp(`(?:^|;)[ \\t]*${sessionCookie}=([\\w-]{43})[ \\t]*(?=;|$)`, 'g')

/**
 * The key of a request of Segment's clients, unless it is in the body: the user of Basic authentication without a
 * password, a Bearer token, or `api_key` in the query. Undefined without any of these. Cookies are ignored: the key in
 * the body takes precedence.
 */
export function readWriteKey(request: IncomingMessage, query: URLSearchParams): string | undefined {
  const { authorization } = request.headers
  const key = readBasicUser(authorization) ?? readBearerToken(authorization) ?? query.get('api_key')
  return key ?? undefined
}

/**
 * The key in the body of a request of Segment's clients: the value of its members `writeKey`, which clients repeat in
 * each message. The body is not parsed, because the sender is not authenticated yet. Undefined when no member holds a
 * key. Throws 400 for a body with different keys.
 */
export function findWriteKey(body: Buffer): string | undefined {
  let found: string | undefined
  let left = writeKeysMax
  for (let at = body.indexOf(writeKeyMember); at >= 0 && left > 0; at = body.indexOf(writeKeyMember, at + 1)) {
    left--
    const start = at + writeKeyMember.length
    const [, key = ''] = writeKeyValue.exec(body.toString('latin1', start, start + writeKeyBytesMax)) ?? []
    if (key === found || keyEnvironment(key) === undefined) continue
    if (found !== undefined) throw invalidField('writeKey', 'must be the same in the whole body')
    found = key
  }
  return found
}

const writeKeyMember = '"writeKey"'
/** Members that are looked at: more than a batch may have messages. */
const writeKeysMax = 2 * eventLimits.batchEventsMax
const writeKeyValue = /^\s{0,16}:\s{0,16}"(\w+)"/
/** A key with its quotes, the colon and some white space. */
const writeKeyBytesMax = keyLength + 64

/** SHA-256 of a token in hex; the token itself is not stored. */
export function hashToken(token: string): string {
  return hash('sha256', token)
}

/**
 * The credential of the key that opened a session: of the first of `tokens` that has one. Rejects with 401 without a
 * session and for one whose key is not valid any more, with 503 while Redis is unavailable.
 */
export async function authenticateSession(
  tokens: readonly string[],
  { sessions, keys }: Pick<Access, 'sessions' | 'keys'>,
): Promise<Authenticated> {
  for (const token of tokens) {
    const tokenHash = hashToken(token)
    const found = await sessions.find(tokenHash)
    if (!found) continue
    const { keyHash, expiresAt } = found
    return { credential: await keys.authenticateHash(keyHash), session: { tokenHash, expiresAt } }
  }
  throw invalidApiKey()
}

/**
 * Throws 403 for an unsafe method when `Sec-Fetch-Site`, or `Origin` in its absence, says that another site sends the
 * request (docs/http-interface.md#cross-site-requests). Scripts send neither header and are accepted. The browser
 * itself compares the origins for `Sec-Fetch-Site`, which no page can set: it knows the address that a proxy changes.
 */
export function rejectCrossSite(request: IncomingMessage, host: string | undefined): void {
  const { method = '', headers } = request
  if (method === 'GET' || method === 'HEAD') return
  const site = headers['sec-fetch-site']
  const isOwn = site === undefined ? isOwnOrigin(headers.origin, host) : site === 'same-origin'
  if (!isOwn) throw new AppError('forbidden', { message: 'Cross-site request refused' })
}

/**
 * Compares host and port only: a proxy may terminate TLS, and the same host under another scheme has the same owner.
 */
function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return true
  // Proxies may add the default port.
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase().replace(/:(80|443)$/, '')
}

/**
 * The user of Basic authentication; '' if there is a password or the header is invalid; undefined for another scheme.
 */
function readBasicUser(authorization: string | undefined): string | undefined {
  if (authorization === undefined || !/^basic( |$)/i.test(authorization)) return undefined
  const pair = Buffer.from(authorization.slice('basic '.length), 'base64').toString('latin1')
  // The first colon ends the user; what follows it is the password, colons included.
  return pair.indexOf(':') === pair.length - 1 ? pair.slice(0, -1) : ''
}

function readBearerToken(authorization: string | undefined): string | null {
  if (authorization === undefined) return null
  const space = authorization.indexOf(' ')
  const scheme = space < 0 ? authorization : authorization.slice(0, space)
  return scheme.toLowerCase() === 'bearer' ? authorization.slice(scheme.length).trim() : null
}
