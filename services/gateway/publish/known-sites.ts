import { invalidField, notFound, rateLimited, SluiceError, unavailable } from '@sluice/contracts/errors'
import { withDeadline } from '@sluice/runtime/deadline'
import type { Logger } from '@sluice/runtime/logger'
import { type Component, pause } from '@sluice/runtime/supervisor'
import { LRUCache } from 'lru-cache'

/** Where sites are registered; satisfied by the site store. */
export interface SiteRegistry {
  /** Registers sites in the name of a key, up to the key's limit. */
  registerFor(keyId: string, siteIds: readonly string[]): Promise<SiteRegistration>
  /** Registered sites, with the days that their events are kept (null: for ever). */
  findKnown(siteIds: readonly string[]): Promise<ReadonlyMap<string, number | null>>
  /** Sites that were changed, or registered by hand, since then. */
  changedSince(
    since: Date | undefined,
  ): Promise<{ sites: readonly { siteId: string; retentionDays: number | null }[]; asOf: Date }>
}

interface SiteRegistration {
  refused: readonly string[]
  /** Until the key may register another site. */
  retryAfterSeconds: number
  /** Of those that were known and do not keep their events for ever. */
  retentionDays: ReadonlyMap<string, number>
}

/** What a site says of its events: none of them is taken, or none that is older than so many ms. */
export type SiteRule = { refusal: SluiceError } | { keptMs: number }

/** By site; one that takes every event has none. */
export type SiteRules = ReadonlyMap<string, SiteRule>

export interface KnownSites extends Component {
  /**
   * Registers the sites that this process has not seen yet, before their events get a 202; returns what there is to mind
   * with all of them. With Postgres away or slow it gives up for now: the site's next event tries again, and until then
   * the query service finds it by its events. Where sites are registered by hand alone it registers none; what it does
   * not know is then refused, and with Postgres away it throws SluiceError 503.
   * Returns at once when all are known.
   */
  register(keyId: string, siteIds: ReadonlySet<string>): SiteRules | Promise<SiteRules>
}

const cachedSitesMax = 100_000
/** Postgres must not hold an event up for longer: the whole answer has 2.5 s. */
const registerTimeoutMs = 400
/** A refused site may be registered by another key meanwhile; until then Postgres is not asked again. */
const refusalTtlMs = 10_000
const cachedRefusalsMax = 10_000
/** Postgres that is away would otherwise be told with every event of a new site. */
const toldEveryMs = 1_000
/** New sites of one key that wait while Postgres registers others. */
const gatheredSitesMax = 10_000
const defaultPollIntervalMs = 1_000
const dayMs = 86_400_000

const noRules: SiteRules = new Map()
/** Of a site that takes every event; known by its identity. */
const plain: SiteRule = { keptMs: Infinity }

/** Why an event is not taken; undefined when it is. Times are Unix ms. */
export function refusalOf(rule: SiteRule, timestamp: number, receivedAt: number): SluiceError | undefined {
  if ('refusal' in rule) return rule.refusal
  if (timestamp >= receivedAt - rule.keptMs) return undefined
  return invalidField('timestamp', `must not be older than the retention_days of its site, ${rule.keptMs / dayMs}`)
}

/**
 * Caches sites with what they say of their events. Its `run` polls for changes; with Postgres away it goes on with what
 * it knows.
 */
export function knownSites(
  registry: SiteRegistry,
  logger: Logger,
  { autoRegister, pollIntervalMs = defaultPollIntervalMs }: { autoRegister: boolean; pollIntervalMs?: number },
): KnownSites {
  /** Every site that this process has seen, with its rule. */
  const known = new LRUCache<string, SiteRule>({ max: cachedSitesMax })
  /** Unix ms at which a key may register a site. */
  const refusals = new LRUCache<string, number>({ max: cachedRefusalsMax, ttl: refusalTtlMs })
  /** Sites that nobody has registered, where no event does. */
  const unregistered = new LRUCache<string, true>({ max: cachedRefusalsMax, ttl: refusalTtlMs })
  let toldAt = -Infinity
  let untold = 0
  let cursor: Date | undefined

  function tellUnregistered(sites: number, reason: string): void {
    untold += sites
    const now = performance.now()
    if (now - toldAt < toldEveryMs) return
    logger.warn({ sites: untold, reason }, 'new sites were not registered, their next events try again')
    toldAt = now
    untold = 0
  }

  function keep(siteId: string, retentionDays: number | null): SiteRule {
    const rule = retentionDays === null ? plain : { keptMs: retentionDays * dayMs }
    known.set(siteId, rule)
    return rule
  }

  async function registerUnseen(keyId: string, siteIds: readonly string[]): Promise<SiteRules> {
    const { refused, retryAfterSeconds, retentionDays } = await registry.registerFor(keyId, siteIds)
    const refusedIds = new Set(refused)
    return rulesOf(siteIds, (siteId) => {
      if (!refusedIds.has(siteId)) return keep(siteId, retentionDays.get(siteId) ?? null)
      refusals.set(`${keyId} ${siteId}`, Date.now() + retryAfterSeconds * 1000)
      return { refusal: rateLimited(retryAfterSeconds) }
    })
  }

  async function findUnseen(siteIds: readonly string[]): Promise<SiteRules> {
    const registered = await registry.findKnown(siteIds)
    return rulesOf(siteIds, (siteId) => {
      const retentionDays = registered.get(siteId)
      if (retentionDays !== undefined) return keep(siteId, retentionDays)
      unregistered.set(siteId, true)
      return { refusal: notFound('Site') }
    })
  }

  const ask = oneCallAtATime((keyId, siteIds) => (autoRegister ? registerUnseen(keyId, siteIds) : findUnseen(siteIds)))

  /** What is known of a site without asking; undefined when nothing is. */
  function remembered(keyId: string, siteId: string): SiteRule | undefined {
    const rule = known.get(siteId)
    if (rule !== undefined) return rule
    if (!autoRegister) return unregistered.has(siteId) ? { refusal: notFound('Site') } : undefined
    const until = refusals.get(`${keyId} ${siteId}`)
    if (until === undefined) return undefined
    return { refusal: rateLimited(Math.max(1, Math.ceil((until - Date.now()) / 1000))) }
  }

  async function askFor(keyId: string, siteIds: readonly string[], rules: SiteRules): Promise<SiteRules> {
    try {
      const answer = await withDeadline(ask(keyId, siteIds), registerTimeoutMs, () => unavailable('Postgres is slow'))
      return new Map([...rules, ...rulesOf(siteIds, (siteId) => answer.get(siteId) ?? plain)])
    } catch (error) {
      // Registered by hand alone: whether this one is can't be told now.
      if (!autoRegister || !(error instanceof SluiceError && error.retryable)) throw error
      tellUnregistered(siteIds.length, error.internal)
      return rules
    }
  }

  async function poll(): Promise<void> {
    const { sites, asOf } = await registry.changedSince(cursor)
    // Whatever was looked up before the first poll may have changed before it.
    if (cursor === undefined && known.size > 0) {
      for (const [siteId, retentionDays] of await registry.findKnown([...known.keys()])) keep(siteId, retentionDays)
    }
    for (const { siteId, retentionDays } of sites) {
      unregistered.delete(siteId)
      if (known.has(siteId)) keep(siteId, retentionDays)
    }
    cursor = asOf
  }

  return {
    name: 'known sites',
    register: (keyId, siteIds) => {
      let unseen: string[] | undefined
      let rules: Map<string, SiteRule> | undefined
      for (const siteId of siteIds) {
        const rule = remembered(keyId, siteId)
        if (rule === undefined) (unseen ??= []).push(siteId)
        else if (rule !== plain) (rules ??= new Map()).set(siteId, rule)
      }
      return unseen === undefined ? (rules ?? noRules) : askFor(keyId, unseen, rules ?? noRules)
    },
    run: async (signal) => {
      let away = false
      while (!signal.aborted) {
        try {
          await poll()
          away = false
        } catch (error) {
          if (!(error instanceof SluiceError && error.retryable)) throw error
          if (!away) logger.warn({ err: error }, 'sites can not be checked for changes, what is known of them holds')
          away = true
        }
        await pause(pollIntervalMs, signal)
      }
    },
  }
}

/** The rules of sites, without those that have none. */
function rulesOf(siteIds: readonly string[], ruleOf: (siteId: string) => SiteRule): Map<string, SiteRule> {
  const rules = new Map<string, SiteRule>()
  for (const siteId of siteIds) {
    const rule = ruleOf(siteId)
    if (rule !== plain) rules.set(siteId, rule)
  }
  return rules
}

type Ask = (keyId: string, siteIds: readonly string[]) => Promise<SiteRules>

/**
 * One call for each key at a time; what comes meanwhile goes together in the next one. Postgres takes them one by one
 * anyway, to count exactly, and a thousand new sites at once would wait for each other.
 */
function oneCallAtATime(call: Ask): Ask {
  /** When each key's last call is over, whatever comes of it. */
  const ends = new Map<string, Promise<void>>()
  const gathered = new Map<string, { siteIds: Set<string>; answer: Promise<SiteRules> }>()

  function gather(keyId: string): { siteIds: Set<string>; answer: Promise<SiteRules> } {
    const siteIds = new Set<string>()
    const answer = (ends.get(keyId) ?? Promise.resolve()).then(() => {
      gathered.delete(keyId)
      return call(keyId, [...siteIds])
    })
    const end = answer
      .catch(() => undefined)
      .then(() => {
        if (ends.get(keyId) === end) ends.delete(keyId)
      })
    ends.set(keyId, end)
    const next = { siteIds, answer }
    gathered.set(keyId, next)
    return next
  }

  return (keyId, siteIds) => {
    const { siteIds: together, answer } = gathered.get(keyId) ?? gather(keyId)
    if (together.size + siteIds.length > gatheredSitesMax) {
      return Promise.reject(unavailable('too many new sites wait for Postgres'))
    }
    for (const siteId of siteIds) together.add(siteId)
    return answer
  }
}
