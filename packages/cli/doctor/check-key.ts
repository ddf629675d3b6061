import { allowsSite, grants, type Scope } from '@sluice/contracts/scopes'
import type { SessionResource } from '@sluice/contracts/session'
import { dayMs } from '@sluice/contracts/time-units'
import { type Client, Refusal } from '../client.ts'
import { messageOf } from '../failure.ts'
import { formatDuration } from '../output/format.ts'
import { safeText } from '../output/safe-text.ts'
import { failed, type Finding, ok, skipped, warning } from './check.ts'

const expiryWarningMs = 7 * dayMs
const lowRemainingShare = 0.1

/** The key, or the finding that says why there is none. */
export async function readSession(client: Client): Promise<{ session: SessionResource; limits: Finding } | Finding> {
  try {
    const { data, headers } = await client.request<SessionResource>('GET', '/api/v1/session')
    return { session: data, limits: limitsFinding('limit of queries', headers) }
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) {
      return failed(
        'key',
        'this address serves no queries',
        'Set SLUICE_URL to the query service, and SLUICE_COLLECT_URL to this one.',
      )
    }
    if (error instanceof Refusal && error.status === 401) {
      return failed(
        'key',
        'not accepted: unknown, mistyped, expired or revoked',
        'Set SLUICE_API_KEY to a valid key; an administrator makes one with "sluice keys create".',
      )
    }
    return failed('key', 'could not be checked', messageOf(error))
  }
}

/** Findings about the key's rights. `keySource`: where the key was found. */
export function* checkSession(session: SessionResource, keySource: string): Generator<Finding> {
  const detail = `${safeText(session.name)} (${session.environment}), from ${keySource}`
  const leftMs = session.expires_at === null ? Infinity : session.expires_at - Date.now()
  yield leftMs < expiryWarningMs
    ? warning(
        'key',
        `${detail}, expires in ${formatDuration(leftMs)}`,
        // A rotation would not help: the new key has the expiry of the old one.
        'If it was rotated, use the key that replaced it. If not, an administrator makes another with "sluice keys create".',
      )
    : ok('key', detail)
  const lacks = (scope: Scope): boolean => !grants(session.scopes, scope)
  const held = session.scopes.join(', ')
  if (lacks('events:write')) {
    yield failed(
      'scopes',
      `${held}: not events:write`,
      'Events can’t be sent with this key: use one with the scope events:write.',
    )
  } else if (lacks('stats:read')) {
    yield warning(
      'scopes',
      `${held}: not stats:read`,
      'The key can send events, but not read statistics: use one with the scope stats:read.',
    )
  } else yield ok('scopes', held)
}

/** Whether the key may use the site, and whether the site is there. */
export async function checkSite(client: Client, session: SessionResource, site: string | undefined): Promise<Finding> {
  const bound = session.site_ids
  const sites = bound === null ? 'all sites' : safeText(bound.slice(0, 5).join(', ')) + (bound.length > 5 ? ', …' : '')
  if (site === undefined) {
    return bound === null
      ? skipped('site', 'none is named: give --site <site>')
      : skipped('site', `none is named; the key is bound to ${sites}`)
  }
  if (!allowsSite(bound, site)) {
    return failed(
      'site',
      `the key is bound to ${sites}, not to ${safeText(site)}`,
      'Use a key of this site, or name one of its sites with --site.',
    )
  }
  if (!grants(session.scopes, 'stats:read')) return skipped('site', `${safeText(site)} can't be read with this key`)
  try {
    await client.request('GET', `/api/v1/sites/${encodeURIComponent(site)}`)
    return ok('site', safeText(site))
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 404)
      return failed('site', 'could not be checked', messageOf(error))
    return warning(
      'site',
      `there is no site ${safeText(site)}`,
      'Check the spelling. The first accepted event registers it, unless SLUICE_AUTO_REGISTER_SITES is false.',
    )
  }
}

/** The finding about one of the key's limits, from the headers of the answer. */
export function limitsFinding(name: string, headers: Headers): Finding {
  const [limit, left] = ['X-RateLimit-Limit', 'X-RateLimit-Remaining'].map((header) =>
    Number(headers.get(header) ?? Number.NaN),
  )
  if (limit === undefined || left === undefined || Number.isNaN(limit) || Number.isNaN(left))
    return skipped(name, 'the answer does not say')
  const detail = `${left.toLocaleString('en-US')} of ${limit.toLocaleString('en-US')} left this minute`
  return left < limit * lowRemainingShare
    ? warning(name, detail, 'Send less often, or have the limits of the key raised (rate_limits).')
    : ok(name, detail)
}
