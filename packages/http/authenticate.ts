import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { invalidApiKey, SluiceError } from '@sluice/contracts/errors'
import { parseCookie } from 'cookie'
import type { Access } from './access.ts'
import type { Credential, Session } from './route.ts'

/** Name of the cookie that holds a session's token. */
export const sessionCookie = 'session'

export interface Authenticated {
  credential: Credential
  session: Session
}

/** What a request presents. The header wins over the query, the query over the cookie (contract section 2). */
export type Presented = { key: string } | { token: string } | undefined

/** An Authorization scheme other than Bearer is ignored. */
export function presented(request: IncomingMessage, query: URLSearchParams): Presented {
  const key = bearer(request.headers.authorization) ?? (query.size > 0 ? query.get('api_key') : null)
  if (key !== null) return { key }
  const { cookie } = request.headers
  const token = cookie === undefined ? undefined : parseCookie(cookie)[sessionCookie]
  return token === undefined ? undefined : { token }
}

/** SHA-256 in hex: all that is stored of a token. */
export function hashToken(token: string): string {
  return hash('sha256', token)
}

/** Who has opened a session. Rejects with 401 for an unknown one or one whose key is no good any more, 503 while Redis is away. */
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
 * Throws 403 for an unsafe method on a cookie that a browser says comes from elsewhere (contract section 2). Scripts send
 * neither header, and pass.
 */
export function refuseCrossSite(request: IncomingMessage, host: string | undefined): void {
  const { method = '', headers } = request
  if (method === 'GET' || method === 'HEAD') return
  const site = headers['sec-fetch-site']
  const isForeign = (site !== undefined && site !== 'same-origin') || !isOwnOrigin(headers.origin, host)
  if (isForeign) throw new SluiceError(403, { message: 'Cross-site request refused' })
}

/** By host and port alone: a proxy may have taken TLS off, and nobody can own the same host under another scheme. */
function isOwnOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return true
  // Proxies may name the port that goes without saying.
  return URL.canParse(origin) && new URL(origin).host === host?.toLowerCase().replace(/:(80|443)$/, '')
}

function bearer(authorization: string | undefined): string | null {
  if (authorization === undefined) return null
  const space = authorization.indexOf(' ')
  const scheme = space < 0 ? authorization : authorization.slice(0, space)
  return scheme.toLowerCase() === 'bearer' ? authorization.slice(scheme.length).trim() : null
}
