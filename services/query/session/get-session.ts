import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'

/** GET /api/v1/session: the credential of the request, a session's or a key's (docs/http-interface.md#sessions). */
export function getSessionRoute(): Route {
  return handle(operations.getSession, ({ credential: { keyId, scopes, expiresAt }, session }) => {
    const ends = [expiresAt, session?.expiresAt].filter((end) => typeof end === 'number')
    const expires = ends.length === 0 ? null : Math.min(...ends)
    return Promise.resolve({ expires_at: expires, key_id: keyId, scopes })
  })
}
