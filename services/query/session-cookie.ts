import { sessionCookie } from '@sluice/http/authenticate'
import type { Client } from '@sluice/http/route'
import { stringifySetCookie } from 'cookie'

/** `Set-Cookie` of contract section 2; `maxAge` in seconds, 0 takes the cookie back. */
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
