import { stringifySetCookie } from 'cookie'
import { sessionCookie } from './authenticate.ts'
import type { Client } from './route.ts'

/** `Set-Cookie` of a session (docs/http-interface.md#sessions); `maxAge` is in seconds, and 0 deletes the cookie. */
export function sessionCookieHeader(token: string, { isSecure }: Client, maxAge: number): string {
  return stringifySetCookie({
    name: sessionCookie,
    value: token,
    maxAge,
    path: '/',
    httpOnly: true,
    secure: isSecure,
    sameSite: 'lax',
  })
}
