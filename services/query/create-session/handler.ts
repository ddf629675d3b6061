import { randomBytes } from 'node:crypto'
import { hashKey } from '@sluice/contracts/api-key'
import { rateLimited, SluiceError } from '@sluice/contracts/errors'
import { failedSessionsPerMinute } from '@sluice/contracts/limits'
import { createSessionBody, sessionAgeMsMax, sessionIdleMs } from '@sluice/contracts/session'
import { validate } from '@sluice/contracts/validate'
import type { Access, Limiter, Sessions } from '@sluice/http/access'
import { hashToken } from '@sluice/http/authenticate'
import { RateLimit } from '@sluice/http/rate-limit'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, PublicRequest } from '@sluice/http/route'
import ipaddr from 'ipaddr.js'
import { sessionCookieHeader } from '../session-cookie.ts'

const tokenBytes = 32

export interface SessionDeps {
  keys: Access['keys']
  sessions: Pick<Sessions, 'create'>
  limiter: Limiter
}

/**
 * POST /api/v1/session: a key for a session's cookie and token (contract section 2). Throws 401 for a key that is no
 * good; 429 when the address has failed ten times within a minute.
 */
export function createSessionHandler({ keys, sessions, limiter }: SessionDeps) {
  return async ({ body, client, receivedAt, log }: PublicRequest): Promise<Answer> => {
    const { api_key: key } = validate(createSessionBody, parseJson(body.bytes))
    const counter = `failed-sessions:${networkOf(client.address)}`
    // Charged before it is known: guesses sent side by side must not all pass.
    const { granted, resetAt } = await limiter.spend(counter, 1, failedSessionsPerMinute)
    if (!granted) throw rateLimited(Math.max(1, Math.ceil((resetAt - Date.now()) / 1000)))
    const credential = await Promise.resolve()
      .then(() => keys.authenticate(key))
      .catch(async (error: unknown) => {
        const isFailure = error instanceof SluiceError && error.status === 401
        if (!isFailure) await limiter.giveBack(counter, 1, failedSessionsPerMinute)
        throw error
      })
    await limiter.giveBack(counter, 1, failedSessionsPerMinute)

    // It is a request of the key's, too: nobody opens sessions without end.
    await new RateLimit(limiter, 'admin', credential).spend(1)
    const token = randomBytes(tokenBytes).toString('base64url')
    await sessions.create(hashToken(token), { keyHash: hashKey(key) })
    log({ session_of_key_id: credential.keyId })
    return {
      status: 201,
      data: {
        session_token: token,
        expires_at: Math.min(receivedAt + sessionIdleMs, credential.expiresAt ?? Infinity),
        key_id: credential.keyId,
        scopes: credential.scopes,
      },
      headers: { 'Set-Cookie': sessionCookieHeader(token, client, sessionAgeMsMax / 1000) },
    }
  }
}

/** Who has one IPv6 address has 2^64 of them: they count as one. One address is one, however it is written. */
function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  if (parsed.kind() === 'ipv4') return parsed.toString()
  return (parsed as ipaddr.IPv6).parts.slice(0, 4).join(':')
}
