import { allowsSite, grants } from '@sluice/contracts/scopes'
import { AppError, conflict, insufficientScope, invalidField, siteNotAllowed } from '@sluice/runtime/errors'
import type { Credential } from './credential.ts'
import { type KeyRecord, unusableReason } from './keys.ts'

type Rights = Pick<KeyRecord, 'scopes' | 'siteIds'>

/**
 * Throws AppError `forbidden` unless the key `maker` may give another key these scopes and sites: a key can't grant
 * what it lacks (docs/http-interface.md#key-grants). `rate_limits` are no grants; requireNoLaterExpiry checks the
 * expiry.
 */
export function requireGrantable(maker: Credential, { scopes, siteIds }: Rights): void {
  for (const scope of scopes) if (!grants(maker.scopes, scope)) throw insufficientScope(scope)
  if (maker.siteIds === null) return
  if (siteIds === null) throw siteNotAllowed()
  for (const siteId of siteIds) if (!allowsSite(maker.siteIds, siteId)) throw siteNotAllowed()
}

type ChangeableRights = Pick<KeyRecord, 'scopes' | 'siteIds' | 'allowedOrigins'>

/** Whether the rights `after` a change include one that the rights `before` did not: a scope, a site, or an origin. */
export function addsRights(before: ChangeableRights, after: ChangeableRights): boolean {
  return (
    after.scopes.some((scope) => !grants(before.scopes, scope)) ||
    addsEntries(before.siteIds, after.siteIds) ||
    addsEntries(before.allowedOrigins, after.allowedOrigins)
  )
}

/** Null: every entry. */
function addsEntries(before: readonly string[] | null, after: readonly string[] | null): boolean {
  if (before === null) return false
  return after === null || after.some((entry) => !before.includes(entry))
}

/** Throws AppError `invalid_field` for an expiry that is not later than `now`; both are Unix ms. */
export function requireFuture(expiresAt: number | null | undefined, now: number): void {
  if (expiresAt !== undefined && expiresAt !== null && expiresAt <= now) {
    throw invalidField('expires_at', 'must be Unix time in milliseconds, in the future')
  }
}

/**
 * Throws AppError `invalid_field` for a key that would expire later than `maker`: temporary rights would become
 * permanent.
 */
export function requireNoLaterExpiry(maker: Credential, expiresAt: number | null): void {
  if (outlives(maker, expiresAt))
    throw invalidField('expires_at', 'must not be later than that of the key that sends the request')
}

/** Throws AppError `forbidden` for the rotation of a key that expires later than `maker`, for the same reason. */
export function requireRotatable(maker: Credential, expiresAt: number | null): void {
  if (outlives(maker, expiresAt)) {
    throw new AppError('forbidden', {
      message: 'Key would expire later than the key that asks: rotate it with one that lasts as long',
    })
  }
}

function outlives({ expiresAt: end }: Credential, expiresAt: number | null): boolean {
  return end !== null && (expiresAt === null || expiresAt > end)
}

/**
 * Throws AppError `conflict` for a key that is revoked or expired at `now` (Unix ms): a change must not make it usable
 * again.
 */
export function requireUsable(key: KeyRecord, now: number): void {
  const reason = unusableReason(key, now)
  if (reason === 'revoked') throw conflict('Key is revoked: make a new one')
  if (reason === 'expired') throw conflict('Key has expired: make a new one')
}
