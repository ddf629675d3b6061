import type { Sessions } from '@sluice/access/sessions'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { sessionCookieHeader } from '@sluice/http/session-cookie'

/** DELETE /api/v1/session: ends the session. A request with a key only removes the cookie. */
export function deleteSessionRoute({ sessions }: { sessions: Pick<Sessions, 'delete'> }): Route {
  return handle(operations.deleteSession, async ({ session, client }) => {
    if (session) await sessions.delete(session.tokenHash)
    return { headers: { 'Set-Cookie': sessionCookieHeader('', client, 0) } }
  })
}
