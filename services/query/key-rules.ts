import { conflict, insufficientScope, invalidField, siteNotAllowed } from '@sluice/contracts/errors'
import { allowsSite, grants } from '@sluice/contracts/scopes'
import type { Credential } from '@sluice/http/route'
import type { KeyRecord } from '@sluice/postgres/keys'

/**
 * Throws 403 unless a key may give another one these scopes and sites: nobody grants what it lacks (contract section 5).
 * `rate_limits` are no grants; for the expiry see requireExpiry.
 */
export function requireGrantable(maker: Credential, { scopes, siteIds }: Pick<KeyRecord, 'scopes' | 'siteIds'>): void {
  for (const scope of scopes) if (!grants(maker.scopes, scope)) throw insufficientScope(scope)
  if (maker.siteIds === null) return
  if (siteIds === null) throw siteNotAllowed()
  for (const siteId of siteIds) if (!allowsSite(maker.siteIds, siteId)) throw siteNotAllowed()
}

/** Throws 400 for an expiry that is over at `now`; both are Unix ms. */
export function requireFuture(expiresAt: number | null | undefined, now: number): void {
  if (expiresAt !== undefined && expiresAt !== null && expiresAt <= now) {
    throw invalidField('expires_at', 'must be Unix time in milliseconds, in the future')
  }
}

/** Throws 400 for a key that would outlive its maker: what is given for a time would be given for ever. */
export function requireExpiry(maker: Credential, expiresAt: number | null): void {
  if (maker.expiresAt !== null && (expiresAt === null || expiresAt > maker.expiresAt)) {
    throw invalidField('expires_at', 'must not be later than that of the key that asks')
  }
}

/** Throws 409 for a key that nobody can use any more at `now` (Unix ms): it would come back to life. */
export function requireUsable({ revokedAt, expiresAt }: KeyRecord, now: number): void {
  if (revokedAt !== null) throw conflict('Key is revoked: make a new one')
  if (expiresAt !== null && expiresAt.getTime() <= now) throw conflict('Key has expired: make a new one')
}
