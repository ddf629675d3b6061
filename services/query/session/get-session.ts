import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { toSessionResource } from './session-resource.ts'

/** GET /api/v1/session: the credential of the request, a session's or a key's (docs/http-interface.md#sessions). */
export function getSessionRoute({ collectUrl }: { collectUrl: string | undefined }): Route {
  return handle(operations.getSession, ({ credential, session, client }) => {
    const ends = [credential.expiresAt, session?.expiresAt].filter((end) => typeof end === 'number')
    const expires = ends.length === 0 ? null : Math.min(...ends)
    return Promise.resolve(toSessionResource(credential, expires, { client, collectUrl }))
  })
}
