import type { Sessions } from '@sluice/http/access'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { sessionCookieHeader } from '../session-cookie.ts'

/** DELETE /api/v1/session: logs out. On a key, which has no session to end, it only takes the cookie back. */
export function deleteSessionHandler({ sessions }: { sessions: Pick<Sessions, 'delete'> }) {
  return async ({ session, client }: ApiRequest): Promise<Answer> => {
    if (session) await sessions.delete(session.hash)
    return { status: 200, headers: { 'Set-Cookie': sessionCookieHeader('', client, 0) } }
  }
}
