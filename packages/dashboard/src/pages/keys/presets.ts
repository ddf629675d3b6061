import type { KeyResource } from '@sluice/contracts/keys'
import type { Scope } from '@sluice/contracts/scopes'

/** What keys are made for, each with the least scopes that do it. */
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

/** The origins of a text with one on each line; null for none. */
export function originsOf(text: string): string[] | null {
  const origins = text.split(/[\s,]+/).filter((each) => each !== '')
  return origins.length === 0 ? null : [...new Set(origins)]
}

/** Whether a key is accepted at a time (Unix ms), or why not. */
export function stateOf(
  { revoked_at: revokedAt, expires_at: expiresAt }: Pick<KeyResource, 'revoked_at' | 'expires_at'>,
  now: number,
): 'active' | 'expiring' | 'expired' | 'revoked' {
  if (revokedAt !== null) return 'revoked'
  if (expiresAt === null) return 'active'
  return expiresAt <= now ? 'expired' : 'expiring'
}
