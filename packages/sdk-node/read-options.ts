import { eventLimits } from '@sluice/contracts/event-limits'
import type { Options } from './types.ts'

/** Options with their defaults. */
export type Settings = Pick<Options, 'spool' | 'onError'> & {
  [Name in Exclude<keyof Options, 'spool' | 'onError'>]-?: NonNullable<Options[Name]>
}

const mebibyte = 1024 * 1024
/** The longest delay that timers of Node support: a longer one ends after 1 ms. */
export const timeoutMsMax = 2 ** 31 - 1

/**
 * Options with defaults for what is left out. Throws a TypeError that names each wrong or unknown option, and never its
 * value.
 */
export function readOptions(options: Options | undefined): Settings {
  const problems: string[] = []
  // Callers in JavaScript may pass any value.
  const given: { readonly [Name in keyof Options]?: unknown } = { ...options }
  const { url, key, site, spool, onFull = 'reject', onError } = given
  const check = (isGood: boolean, problem: string): void => {
    if (!isGood) problems.push(problem)
  }
  const number = (name: keyof Options, byDefault: number, [min, max]: [number, number]): number => {
    const value = given[name] ?? byDefault
    const isGood = typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
    check(isGood, `${name} must be an integer from ${min} to ${max}`)
    return isGood ? value : byDefault
  }

  check(isAddress(url), 'url must be the address of Sluice, such as https://in.example, without a user or a query')
  check(typeof key === 'string' && /^svc_(prod|dev)_\w+$/.test(key), 'key must be an API key, svc_prod_…')
  check(
    typeof site === 'string' && site !== '' && Array.from(site).length <= eventLimits.siteIdLengthMax,
    `site must be a site_id of 1 to ${eventLimits.siteIdLengthMax} characters`,
  )
  check(spool === undefined || (typeof spool === 'string' && spool !== ''), 'spool must be a folder')
  check(onFull === 'reject' || onFull === 'wait', "onFull must be 'reject' or 'wait'")
  check(onError === undefined || typeof onError === 'function', 'onError must be a function')
  const settings = {
    url,
    key,
    site,
    spool,
    onFull,
    onError,
    spoolBytesMax: number('spoolBytesMax', 256 * mebibyte, [1, Number.MAX_SAFE_INTEGER]),
    queueEventsMax: number('queueEventsMax', 100_000, [1, 10_000_000]),
    queueBytesMax: number('queueBytesMax', 64 * mebibyte, [eventLimits.eventBytesMax, Number.MAX_SAFE_INTEGER]),
    requestTimeoutMs: number('requestTimeoutMs', 30_000, [1, timeoutMsMax]),
  }
  for (const name of Object.keys(given)) check(Object.hasOwn(settings, name), `${name} is not an option`)
  if (problems.length > 0) throw new TypeError(`createSluice: ${problems.join('; ')}`)
  return settings as Settings
}

function isAddress(value: unknown): boolean {
  const url = typeof value === 'string' ? URL.parse(value) : null
  return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash
}
