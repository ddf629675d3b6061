import { defaultLimits, type RateLimits } from '@sluice/contracts/rate-limits'
import type { Scope } from '@sluice/contracts/scopes'
import { formatNumber } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'

const limitNames = {
  events_per_minute: 'Events per minute',
  events_per_minute_per_address: 'Events per minute and IP address',
  queries_per_minute: 'Queries per minute',
  admin_per_minute: 'Changes per minute',
} satisfies Record<keyof RateLimits, string>

/** The texts of the keys' page. */
export const texts = {
  sentence: 'Programs and people sign in with keys. Give each its own, with no more scopes than it needs.',
  create: 'Create key',
  edit: 'Edit',
  editTitle: 'Edit key',
  save: 'Save',
  revoke: 'Revoke',
  rotate: 'Rotate',
  name: 'Name',
  nameHint: 'Whom or what it is for.',
  missingName: 'Enter a name.',
  missingScope: 'Choose at least one scope.',
  missingSite: 'Choose at least one site.',
  wrongExpiry: 'Choose a day in the future.',
  preset: 'What it is for',
  presets: {
    browser: { label: 'Browser', hint: 'Sends events from web pages. Everybody can read it there.' },
    server: { label: 'Server', hint: 'Sends events from your servers and apps, and imports files.' },
    dashboard: { label: 'Dashboard', hint: 'Looks at statistics and cohorts, and exports events.' },
    admin: { label: 'Admin', hint: 'May do everything, keys included.' },
    custom: { label: 'Something else', hint: 'Choose the scopes yourself.' },
  },
  scopes: 'Scopes',
  scopeHints: {
    'events:write': 'Send and import events',
    'stats:read': 'Read statistics, events and sites',
    'cohorts:read': 'Read cohorts and retention',
    'cohorts:write': 'Change cohorts',
    admin: 'Everything, including what no other scope allows: keys, webhooks, alerts, sites, erasure',
  } satisfies Record<Scope, string>,
  environment: 'Environment',
  environments: { prod: 'Production', dev: 'Development' },
  sites: 'Sites',
  allSites: 'All sites',
  someSites: 'Only these',
  find: 'Find a key',
  noMatch: (text: string, isWhole: boolean) =>
    `No key${isWhole ? '' : ' on this page'} has “${text}” in its name, its hint or its sites`,
  noneLive: 'The keys on this page no longer work',
  findSite: 'Find a site',
  expires: 'Expires',
  expiry: {
    never: 'Never',
    '7': 'In 7 days',
    '30': 'In 30 days',
    '90': 'In 90 days',
    '365': 'In a year',
    date: 'On a day …',
    keep: (date: string) => `On ${date}`,
  },
  expiryDay: 'Last day',
  origins: 'Allowed origins',
  originsHint: 'One on each line. Pages of other origins can’t send events with it. If empty, any page can.',
  wrongOrigin: (text: string) =>
    `“${text}” is not an origin. Enter scheme and host without a path, such as https://shop.example.`,
  originsExample: 'https://shop.example',
  anyOrigin: 'Any',
  noOrigin: 'None',
  columns: { key: 'Key', lastUsed: 'Last used', state: 'State', expiresAt: 'Expires', created: 'Created', id: 'ID' },
  limits: 'Limits',
  limitsHint: 'Requests above a limit get status 429 until the next minute. Leave a field empty for the default.',
  limitNames,
  limitHints: {
    events_per_minute: `Events of all requests with this key. Default: ${formatNumber(defaultLimits.events)}.`,
    events_per_minute_per_address:
      'Events from one IP address. Set it for keys in web pages, which everybody can read. Default: no limit.',
    queries_per_minute: `Requests that read data; each query of a batch counts. Default: ${formatNumber(defaultLimits.queries)}.`,
    admin_per_minute: `Requests that change something, such as creating a cohort or a key. Default: ${formatNumber(defaultLimits.admin)}.`,
  } satisfies Record<keyof RateLimits, string>,
  wrongLimit: (highest: number) =>
    `Enter a whole number from 1 to ${formatNumber(highest)}, or leave the field empty for the default.`,
  ownLimits: (limits: RateLimits) =>
    (Object.keys(limitNames) as (keyof RateLimits)[])
      .filter((name) => limits[name] !== undefined)
      .map((name) => `${limitNames[name]}: ${formatNumber(limits[name] ?? 0)}`)
      .join('; '),
  defaultLimits: 'Default',
  never: 'Never',
  active: 'Active',
  expired: 'Expired',
  expiresIn: 'Expires in',
  revoked: 'Revoked',
  hideEnded: (count: number) => `Hide ${messages.count(count, 'key')} that no longer work${count === 1 ? 's' : ''}`,
  thisSession: 'This session',
  none: 'There are no keys',
  noneWhy: 'Programs need one to send events.',
  reveal: 'Save this key now',
  revealText: 'It is shown only once. Sluice keeps only a hash of it.',
  what: 'Key',
  copyLink: 'Copy sign-in link',
  revokeTitle: (name: string) => `Revoke “${name}”?`,
  revokeText: 'Whatever uses it is refused within two seconds. This can’t be undone.',
  revokeSelf: 'This session was opened with it: you will be signed out.',
  isRevoked: (name: string) => `“${name}” revoked`,
  rotateTitle: (name: string) => `Rotate “${name}”`,
  rotateText: 'Creates a new key with the same grants. The old key keeps working during the overlap.',
  rotateSelf: 'This session was opened with it: the old key has to work until you have saved the new one.',
  overlap: 'Overlap',
  overlaps: {
    '0s': 'None: the old key stops working at once',
    '1h': '1 hour',
    '1d': '1 day',
    '7d': '7 days',
    '30d': '30 days',
  },
  rotatedReveal: 'Save the new key now',
  rotatedText: (overlap: string | undefined, hasExpiry: boolean) => {
    const until = hasExpiry ? ', or until it expires if that is earlier' : ''
    const ofOldKey =
      overlap === undefined ? 'The old key no longer works.' : `The old key keeps working for ${overlap}${until}.`
    return `It is shown only once. ${ofOldKey}${hasExpiry ? ' The new key has the same expiry.' : ''}`
  },
  stillUsed:
    'Before this key expires, check when it was last used: every program that still uses it needs another key by then.',
}
