import type { KeyResource } from '@sluice/contracts/keys'
import { limitMax, type RateLimits } from '@sluice/contracts/rate-limits'
import type { Environment, Scope } from '@sluice/contracts/scopes'
import { dayMs } from '@sluice/contracts/time-units'
import { texts } from './messages.ts'
import { originsOf, type Preset, presetOf, presets, wrongOrigin } from './presets.ts'

export const expiries = ['never', '7', '30', '90', '365', 'date'] as const
/** Days from now, never, a day, or as it was. */
export type Expiry = (typeof expiries)[number] | 'keep'

export const limitNames = [
  'events_per_minute',
  'events_per_minute_per_address',
  'queries_per_minute',
  'admin_per_minute',
] as const satisfies readonly (keyof RateLimits)[]
export type LimitName = (typeof limitNames)[number]

/** A key while it is made or edited. */
export interface KeyDraft {
  name: string
  preset: Preset
  /** The scopes of `custom`. */
  scopes: readonly Scope[]
  environment: Environment
  /** Null: all. */
  siteIds: readonly string[] | null
  expiry: Expiry
  /** The last day, `2026-11-22`, of the browser's zone. */
  day: string
  origins: string
  /** As they were typed; nothing: the default. */
  limits: Readonly<Record<LimitName, string>>
}

const limitsOf = (limits: RateLimits | null): KeyDraft['limits'] => ({
  events_per_minute: String(limits?.events_per_minute ?? ''),
  events_per_minute_per_address: String(limits?.events_per_minute_per_address ?? ''),
  queries_per_minute: String(limits?.queries_per_minute ?? ''),
  admin_per_minute: String(limits?.admin_per_minute ?? ''),
})

/** What was chosen and typed in the form. */
export interface Edits extends Partial<Omit<KeyDraft, 'limits'>> {
  /** The latest preset but `custom`, which keeps what that one suggests. */
  suggesting?: Preset
  limits?: Partial<KeyDraft['limits']>
}

/** A draft with what was chosen and typed in it. */
export const editedDraft = (draft: KeyDraft, { limits, ...edits }: Edits): KeyDraft => ({
  ...draft,
  ...edits,
  limits: { ...draft.limits, ...limits },
})

/** What the choice of a purpose changes. */
export const presetEdits = (draft: KeyDraft, preset: Preset): Edits =>
  preset === 'custom' ? { preset, scopes: scopesOf(draft) } : { preset, suggesting: preset }

/** The advised limit of a key in a web page for each address. */
const browserLimits: RateLimits = { events_per_minute_per_address: 300 }

/**
 * The draft of a new key; it gets the environment and the sites of its maker. Everybody can read a key in a web page: it
 * gets the site that it is probably for, and a limit for each address, which would limit a server as a whole.
 */
export function newDraft(
  { environment, site_ids: own }: Pick<KeyResource, 'environment' | 'site_ids'>,
  edits: Edits,
  site: string | undefined,
): KeyDraft {
  const isBrowser = edits.suggesting === 'browser'
  const draft: KeyDraft = {
    name: '',
    preset: 'server',
    scopes: [],
    environment,
    siteIds: isBrowser && site !== undefined ? (own ?? [site]) : own,
    expiry: 'never',
    day: '',
    origins: '',
    limits: limitsOf(isBrowser ? browserLimits : null),
  }
  return editedDraft(draft, edits)
}

/** The draft of a key that exists. */
export const draftOf = (apiKey: KeyResource): KeyDraft => ({
  name: apiKey.name,
  preset: presetOf(apiKey),
  scopes: apiKey.scopes,
  environment: apiKey.environment,
  siteIds: apiKey.site_ids,
  expiry: apiKey.expires_at === null ? 'never' : 'keep',
  day: '',
  origins: apiKey.allowed_origins?.join('\n') ?? '',
  limits: limitsOf(apiKey.rate_limits),
})

/** The scopes that the draft grants. */
export const scopesOf = ({ preset, scopes }: KeyDraft): readonly Scope[] =>
  preset === 'custom' ? scopes : presets[preset]

/** Whether keys of these scopes send events, so that origins matter. */
export const sendsEvents = (draft: KeyDraft): boolean =>
  scopesOf(draft).some((scope) => scope === 'events:write' || scope === 'admin')

function expiresAtOf({ expiry, day }: KeyDraft, now: number, kept: number | null): number | null {
  if (expiry === 'never') return null
  if (expiry === 'keep') return kept
  return expiry === 'date' ? new Date(`${day}T23:59:59.999`).getTime() : now + Number(expiry) * dayMs
}

/** Whether a text is empty or a valid limit. */
function isLimit(text: string): boolean {
  const value = Number(text)
  return text.trim() === '' || (Number.isInteger(value) && value >= 1 && value <= limitMax)
}

/** The limits of the form; null if all fields are empty. */
function rateLimitsOf(limits: KeyDraft['limits']): RateLimits | null {
  const typed = limitNames.filter((name) => limits[name].trim() !== '')
  return typed.length === 0 ? null : Object.fromEntries(typed.map((name) => [name, Number(limits[name])]))
}

/** The problems of the draft at a time (Unix ms), by the name of the field in the interface. */
export function problemsOf(draft: KeyDraft, now: number): Readonly<Record<string, string | undefined>> {
  const origin = wrongOrigin(draft.origins)
  const isPast = draft.expiry === 'date' && !((expiresAtOf(draft, now, null) ?? 0) > now)
  return {
    name: draft.name.trim() === '' ? texts.missingName : undefined,
    scopes: scopesOf(draft).length === 0 ? texts.missingScope : undefined,
    site_ids: draft.siteIds?.length === 0 ? texts.missingSite : undefined,
    expires_at: isPast ? texts.wrongExpiry : undefined,
    allowed_origins: origin === undefined || !sendsEvents(draft) ? undefined : texts.wrongOrigin(origin),
    ...Object.fromEntries(
      limitNames
        .filter((name) => !isLimit(draft.limits[name]))
        .map((name) => [`rate_limits.${name}`, texts.wrongLimit(limitMax)]),
    ),
  }
}

/** The request body of the form: of PUT, and with `environment` of POST. */
export interface KeyBody {
  name: string
  scopes: Scope[]
  site_ids: string[] | null
  expires_at: number | null
  allowed_origins: string[] | null
  rate_limits: RateLimits | null
}

/** The body of a draft at a time (Unix ms); `apiKey` is the key that is edited. */
export function bodyOf(draft: KeyDraft, now: number, apiKey: KeyResource | undefined): KeyBody {
  const origins = sendsEvents(draft) ? originsOf(draft.origins) : null
  return {
    name: draft.name.trim(),
    scopes: [...scopesOf(draft)],
    site_ids: draft.siteIds === null ? null : [...draft.siteIds],
    expires_at: expiresAtOf(draft, now, apiKey?.expires_at ?? null),
    // An empty list, which allows no page, can't be told from an empty field: it stays as it was.
    allowed_origins: origins ?? (apiKey?.allowed_origins?.length === 0 ? [] : null),
    rate_limits: rateLimitsOf(draft.limits),
  }
}
