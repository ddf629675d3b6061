import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { parseCookie } from 'cookie'
import type { Access } from '@sluice/access/access'
import type { Credential, Session } from '@sluice/access/credential'
import { AppError, invalidApiKey } from '@sluice/runtime/errors'

/** Name of the cookie that holds a session's token. */
export const sessionCookie = 'session'

export interface Authenticated {
  credential: Credential
  session: Session
}

/**
 * The credential in a request. The header wins over the query, the query over the cookie
 * (docs/http-interface.md#credentials).
 */
export type PresentedCredential = { key: string } | { token: string } | undefined

/** An Authorization scheme other than Bearer is ignored. */
export function readCredential(request: IncomingMessage, query: URLSearchParams): PresentedCredential {
  const key = readBearerToken(request.headers.authorization) ?? (query.size > 0 ? query.get('api_key') : null)
  if (key !== null) return { key }
  const { cookie } = request.headers
  const token = cookie === undefined ? undefined : parseCookie(cookie)[sessionCookie]
  return token === undefined ? undefined : { token }
}

/** SHA-256 of a token in hex; the token itself is not stored. */
export function hashToken(token: string): string {
  return hash('sha256', token)
}

/**
 * The credential of the key that opened a session. Rejects with 401 for an unknown session and for one whose key is not
 * valid any more, with 503 while Redis is unavailable.
 */
export async function authenticateSession(
  token: string,
  { sessions, keys }: Pick<Access, 'sessions' | 'keys'>,
): Promise<Authenticated> {
  const hashed = hashToken(token)
  const found = await sessions.find(hashed)
  if (!found) throw invalidApiKey()
  const { keyHash, expiresAt } = found
  return { credential: await keys.authenticateHash(keyHash), session: { hash: hashed, expiresAt } }
}

/**
 * Throws 403 for an unsafe method on a cookie that comes from another site according to the browser
 * (docs/http-interface.md#cross-site-requests). Scripts send neither header and are accepted.
 */
export function rejectCrossSite(request: IncomingMessage, host: string | undefined): void {
  const { method = '', headers } = request
  if (method === 'GET' || method === 'HEAD') return
  const site = headers['sec-fetch-site']
  const isForeign = (site !== undefined && site !== 'same-origin') || !isOwnOrigin(headers.origin, host)
  if (isForeign) throw new AppError('forbidden', { message: 'Cross-site request refused' })
}

/** Compares host and port only: a proxy may terminate TLS, and the same host under another scheme has the same owner. */
function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return true
  // Proxies may add the default port.
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase().replace(/:(80|443)$/, '')
}

function readBearerToken(authorization: string | undefined): string | null {
  if (authorization === undefined) return null
  const space = authorization.indexOf(' ')
  const scheme = space < 0 ? authorization : authorization.slice(0, space)
  return scheme.toLowerCase() === 'bearer' ? authorization.slice(scheme.length).trim() : null
}
