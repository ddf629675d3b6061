import { randomBytes } from 'node:crypto'
import type { Access } from '@sluice/access/access'
import { hashKey } from '@sluice/access/api-key'
import type { Credential } from '@sluice/access/credential'
import { type Limiter, rateLimitedUntil } from '@sluice/access/limiter'
import { RequestRateLimit } from '@sluice/access/request-rate-limit'
import type { Sessions } from '@sluice/access/sessions'
import type { SignInCodes } from '@sluice/access/sign-in-codes'
import { operations } from '@sluice/api/operations'
import { failedSessionsPerMinute } from '@sluice/contracts/rate-limits'
import { type CreateSessionBody, sessionAgeMsMax, sessionIdleMs } from '@sluice/contracts/session'
import { hashToken } from '@sluice/http/authenticate'
import { networkOf } from '@sluice/http/client-address'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { sessionCookieHeader } from '@sluice/http/session-cookie'
import { AppError, invalidField, invalidSignInCode, missingField } from '@sluice/runtime/errors'
import { toSessionResource } from './session-resource.ts'

const tokenBytes = 32

export interface SessionDeps {
  keyCache: Access['keys']
  sessions: Pick<Sessions, 'create' | 'delete'>
  signInCodes: Pick<SignInCodes, 'find' | 'take'>
  limiter: Limiter
  /** Where events go; undefined: to the origin that the client uses. */
  collectUrl: string | undefined
}

/**
 * POST /api/v1/session: exchanges a key, or a sign-in code, for the cookie and the token of a session
 * (docs/http-interface.md#sessions). Throws 401 for an invalid key or code, 429 when the address has failed ten times
 * within a minute.
 */
export function createSessionRoute({ keyCache, sessions, signInCodes, limiter, collectUrl }: SessionDeps): Route {
  /**
   * Stores the session and returns the rights of its key. A refused request, whatever its status, does not use up the
   * code.
   */
  async function openSession(signIn: SignIn, tokenHash: string): Promise<Credential> {
    const { keyHash, credential } = await signIn.check()
    // Opening a session also counts against the limit of the key, so that the number of sessions is bounded.
    const limit = new RequestRateLimit(limiter, 'admin', credential)
    await limit.consume(1)
    // Done before the code is used up, because this may fail. Nobody has the token yet.
    await sessions.create(tokenHash, { keyHash })
    try {
      await signIn.finish()
    } catch (error) {
      // If it can't be deleted, it ends by itself.
      await sessions.delete(tokenHash).catch(() => undefined)
      if (isFailure(error)) await limit.refund()
      throw error
    }
    return credential
  }

  return handle(operations.createSession, async ({ body, client, receivedAt, log }) => {
    const signIn = signInOf(body, { keyCache, signInCodes })
    const counter = `failed-sessions:${networkOf(client.address)}`
    // Charged before the key is checked: guesses that are sent concurrently must not all pass.
    const { granted, resetAt } = await limiter.consume(counter, 1, failedSessionsPerMinute)
    if (!granted) throw rateLimitedUntil(resetAt)
    const token = randomBytes(tokenBytes).toString('base64url')
    const credential = await openSession(signIn, hashToken(token)).catch(async (error: unknown) => {
      if (!isFailure(error)) await limiter.refund(counter, 1, failedSessionsPerMinute)
      throw error
    })
    await limiter.refund(counter, 1, failedSessionsPerMinute)
    log({ session_of_key_id: credential.keyId })
    return {
      data: {
        session_token: token,
        ...toSessionResource(credential, Math.min(receivedAt + sessionIdleMs, credential.expiresAt ?? Infinity), {
          client,
          collectUrl,
        }),
      },
      headers: { 'Set-Cookie': sessionCookieHeader(token, client, sessionAgeMsMax / 1000) },
    }
  })
}

/** How a body signs in. Both methods throw 401 for a failed attempt. */
interface SignIn {
  /** Finds the key of the session. */
  check: () => Promise<{ keyHash: string; credential: Credential }>
  /** Called when all else has succeeded. Uses up a sign-in code; one of concurrent calls succeeds. */
  finish: () => Promise<void>
}

/** How the body signs in; not tried yet. Throws 400 unless it has exactly one of key and code. */
function signInOf(
  { api_key: key, code }: CreateSessionBody,
  { keyCache, signInCodes }: Pick<SessionDeps, 'keyCache' | 'signInCodes'>,
): SignIn {
  if (code === undefined) {
    if (key === undefined) throw missingField('api_key')
    return {
      check: async () => ({ keyHash: hashKey(key), credential: await keyCache.authenticate(key) }),
      finish: () => Promise.resolve(),
    }
  }
  if (key !== undefined) throw invalidField('code', 'must not be given together with api_key')
  const codeHash = hashToken(code)
  return {
    check: async () => {
      const found = await signInCodes.find(codeHash)
      if (!found) throw invalidSignInCode()
      try {
        return { ...found, credential: await keyCache.authenticateHash(found.keyHash) }
      } catch (error) {
        // The key was revoked, or has expired, since the code was made.
        throw isFailure(error) ? invalidSignInCode() : error
      }
    },
    finish: async () => {
      if (!(await signInCodes.take(codeHash))) throw invalidSignInCode()
    },
  }
}

function isFailure(error: unknown): boolean {
  return error instanceof AppError && error.code === 'unauthenticated'
}
