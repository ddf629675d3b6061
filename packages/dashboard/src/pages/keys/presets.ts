import type { KeyResource } from '@sluice/contracts/keys'
import type { Scope } from '@sluice/contracts/scopes'
import { dayMs } from '@sluice/contracts/time-units'

/** Purposes of keys, each with the least scopes that it needs. */
export const presets = {
  browser: ['events:write'],
  server: ['events:write'],
  dashboard: ['stats:read', 'cohorts:read'],
  admin: ['admin'],
} as const satisfies Record<string, readonly Scope[]>
export type Preset = keyof typeof presets | 'custom'

const isSame = (one: readonly string[], other: readonly string[]) =>
  one.length === other.length && one.every((each) => other.includes(each))

/** The preset that a key's grants are; `browser` and `server` differ by whether origins are named. */
export function presetOf({
  scopes,
  allowed_origins: origins,
}: Pick<KeyResource, 'scopes' | 'allowed_origins'>): Preset {
  if (isSame(scopes, presets.browser)) return origins === null ? 'server' : 'browser'
  if (isSame(scopes, presets.dashboard)) return 'dashboard'
  return isSame(scopes, presets.admin) ? 'admin' : 'custom'
}

const linesOf = (text: string) => text.split(/[\s,]+/).filter((each) => each !== '')

/**
 * A URL as an origin in the form that browsers send; undefined if it has a path or is no URL. Apps and extensions have
 * other schemes than http(s), whose origins are taken as they are.
 */
function originOf(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { origin, href, protocol } = new URL(text)
  if (/^https?:$/.test(protocol)) return href === `${origin}/` ? origin : undefined
  return /^[a-z][a-z\d+.-]*:\/\/[^\s/?#@]+$/.test(text) ? text : undefined
}

/** The origins of a text with one on each line, as browsers send them; null for none. */
export function originsOf(text: string): string[] | null {
  const origins = linesOf(text).map((each) => originOf(each) ?? each)
  return origins.length === 0 ? null : [...new Set(origins)]
}

/** The first line of a text that is not an origin; undefined if all lines are. */
export const wrongOrigin = (text: string): string | undefined =>
  linesOf(text).find((each) => originOf(each) === undefined)

/** Whether a key is accepted at a time (Unix ms), or why not. */
export function stateOf(
  { revoked_at: revokedAt, expires_at: expiresAt }: Pick<KeyResource, 'revoked_at' | 'expires_at'>,
  now: number,
): 'active' | 'expiring' | 'expired' | 'revoked' {
  if (revokedAt !== null) return 'revoked'
  if (expiresAt === null) return 'active'
  return expiresAt <= now ? 'expired' : 'expiring'
}

/** How often the state of a key may change that is shown at a time (Unix ms): each second before it expires, ms. */
export function tickMsOf(key: Parameters<typeof stateOf>[0], now: number): number {
  const isNear = stateOf(key, now) === 'expiring' && (key.expires_at ?? 0) - now <= dayMs
  return isNear ? 1_000 : 60_000
}
