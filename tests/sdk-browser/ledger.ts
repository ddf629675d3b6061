import { readFile } from 'node:fs/promises'
import { bundle } from '@sluice/browser/bundle'
import { eventLimits } from '@sluice/contracts/event-limits'
import { waitUntil } from '@sluice/runtime/wait-until'
import { drawBelow, seededRandom } from '../chaos/random.ts'
import { serveLocally } from '../dashboard/support/resources.ts'
import type { Rig } from '../dashboard/support/rig.ts'
import { type CollectProxy, type SentEvent, startCollectProxy, type Treatment } from '../support/collect-proxy.ts'
import { compareRows } from '../support/compare-rows.ts'
import { type Edit, mutate } from '../support/mutate.ts'
import type { Profile, RunningBrowser, Tab } from './support/browser.ts'
import { createChromiumProfile } from './support/chromium.ts'

/** What happens to the pages of a round. */
export const faults = [
  'kill-browser',
  'kill-pages',
  'close-tabs',
  'hide-tabs',
  'reload',
  'offline',
  'full-storage',
  'clock-ahead',
  'clock-never-set',
  'five-tabs',
  'beacons',
  'nothing',
] as const
export type Fault = (typeof faults)[number]

/**
 * How the network is: `bad` in every way by chance, `together` holds the requests of five tabs with refused events
 * until each tab has sent one and delays others, and the rest is the same for all requests.
 */
export type Network = 'bad' | 'forward' | 'cut-before' | 'cut-after' | 'delay' | 'answer' | 'together'

export interface Round {
  fault: Fault
  network: Network
}

export interface LedgerOptions {
  rounds: readonly Round[]
  seed: number
  /** Bugs that are put into the SDK. */
  edits?: readonly Edit[]
  /** The browser, Chromium by default. */
  createProfile?: () => Promise<Profile>
  say?: (line: string) => void
}

export interface Balance {
  /** Events that a page's store had. */
  reported: number
  /** Rows in Sluice. */
  stored: number
  /** Requests that the proxy saw, and the events in them. */
  requests: number
  sent: number
  lost: number
  twice: number
  altered: number
  /** The first of those, for whoever looks for the cause. */
  examples: readonly unknown[]
}

interface Row extends SentEvent {
  properties: Record<string, unknown>
}

const dayMs = 24 * 3_600_000
/**
 * So many events are tracked in a round at least, and less than twice as many before something happens to its pages.
 */
const eventsMin = 25
const tabsMax = 5
/** The SDK corrects the time of an event to one that is no older than this. */
const correctionMsMax = 7 * dayMs

/**
 * Tracks events on real pages while browser, network and clock fail, lets the profile send what is left, and compares
 * what the pages' store had with the rows in Sluice.
 */
export async function keepLedger(
  rig: Rig,
  { rounds, seed, edits = [], createProfile = createChromiumProfile, say = () => undefined }: LedgerOptions,
): Promise<Balance> {
  const random = seededRandom(seed)
  const siteId = `ledger-${seed}-${Date.now().toString(36)}`
  const { key } = await rig.createKey({
    name: siteId,
    scopes: ['events:write'],
    site_ids: [siteId],
    rate_limits: { events_per_minute: 10_000_000 },
  })
  const reported = new Map<string, SentEvent[]>()
  const proxy = await startCollectProxy(rig.url)
  const site = await serveLedgerPages({
    siteId,
    key,
    proxy,
    sdk: await bundle('snippet', { plugins: [mutate(edits)] }),
    reported,
  })
  const profile = await createProfile()
  let browser: RunningBrowser | undefined
  try {
    for (const [place, { fault, network }] of rounds.entries()) {
      proxy.treat = treatmentsOf(network, random)
      browser ??= await profile.start()
      say(`round ${place + 1}: ${fault}, network ${network}`)
      const isEnded = await runRound(browser, { url: site.url, fault, network, random, reported, proxy })
      if (isEnded) browser = undefined
    }
    proxy.treat = () => ({ kind: 'forward' })
    browser ??= await profile.start()
    await drain(browser, site.url)
    await proxy.settle()
    say(`${reported.size} events were reported, nothing is left in the store`)
    return await compare(rig, siteId, reported, proxy)
  } finally {
    await browser?.kill()
    await profile.remove()
    site.stop()
    await proxy.stop()
  }
}

/** Serves the page, the SDK and `/reported`, where pages say what their store has. */
async function serveLedgerPages(parts: {
  siteId: string
  key: string
  proxy: CollectProxy
  sdk: string
  reported: Map<string, SentEvent[]>
}) {
  const { siteId, key, proxy, sdk, reported } = parts
  const ledger = await readFile(new URL('ledger-page.js', import.meta.url), 'utf8')
  const tag = `<script src="/sdk.js" data-url="${proxy.url}" data-site="${siteId}" data-key="${key}" data-storage="device" data-auto-page="false"></script>`
  const html = `<!doctype html><html data-site="${siteId}"><title>Ledger</title><script src="/ledger.js"></script>${tag}`
  const texts: Record<string, string> = { '/ledger.js': ledger, '/sdk.js': sdk }
  return serveLocally((request, response) => {
    const [path = ''] = (request.url ?? '').split('?', 1)
    if (path === '/reported') {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const event = JSON.parse(Buffer.concat(chunks).toString()) as SentEvent
        reported.set(event.event_id, [...(reported.get(event.event_id) ?? []), event])
        response.writeHead(204).end()
      })
      return
    }
    const text = texts[path]
    response.writeHead(200, { 'Content-Type': text === undefined ? 'text/html; charset=utf-8' : 'text/javascript' })
    response.end(path === '/favicon.ico' ? '' : (text ?? html))
  })
}

/** What the proxy does with the requests of a round. */
function treatmentsOf(network: Network, random: () => number): CollectProxy['treat'] {
  let gathered = 0
  return ({ events }) => {
    switch (network) {
      case 'bad':
        return badTreatment(events.length, random)
      case 'together':
        return events.some(({ timestamp }) => isRefused(timestamp)) && gathered++ < tabsMax
          ? { kind: 'together', count: tabsMax }
          : { kind: 'delay', ms: 300 }
      case 'delay':
        return { kind: 'delay', ms: 300 }
      case 'answer':
        return { kind: 'answer', status: 503 }
      case 'forward':
      case 'cut-before':
      case 'cut-after':
        return { kind: network }
    }
  }
}

function badTreatment(events: number, random: () => number): Treatment {
  const draw = drawBelow(random, 100)
  const answers: readonly [number, Treatment][] = [
    [10, { kind: 'cut-before' }],
    [22, { kind: 'cut-after' }],
    [32, { kind: 'repeat', afterMs: drawBelow(random, 600) }],
    [42, { kind: 'delay', ms: drawBelow(random, 600) }],
    [52, { kind: 'reorder' }],
    // One event alone would be given up, as it must be.
    [58, events > 1 ? { kind: 'answer', status: 413 } : { kind: 'forward' }],
    [62, { kind: 'answer', status: 429, headers: { 'Retry-After': '1' } }],
    [66, { kind: 'answer', status: 503, headers: { 'Retry-After': '0' } }],
    [68, { kind: 'answer', status: 500 }],
  ]
  return answers.find(([end]) => draw < end)?.[1] ?? { kind: 'forward' }
}

/** Whether Sluice refuses an event because of its time, so that the SDK may correct it once. */
function isRefused(timestamp: number): boolean {
  return timestamp < eventLimits.timestampMsMin || timestamp > Date.now() + eventLimits.futureMsMax
}

interface RoundParts extends Round {
  /** The address of the site. */
  url: string
  random: () => number
  reported: ReadonlyMap<string, unknown>
  proxy: CollectProxy
}

/** Runs the pages of a round. Resolves with whether the browser has ended. */
async function runRound(browser: RunningBrowser, round: RoundParts): Promise<boolean> {
  const { url, fault, network, random, proxy } = round
  const offsets: Partial<Record<Fault, number>> = {
    'clock-ahead': 3 * dayMs,
    'clock-never-set': 4 * dayMs - Date.now(),
  }
  const query = new URLSearchParams({
    every: String(10 + drawBelow(random, 30)),
    offset: String(offsets[fault] ?? 0),
    ...(fault === 'beacons' && { beacon: '' }),
    ...((fault === 'beacons' || fault === 'hide-tabs') && { hide: '' }),
  })
  const pages: Tab[] = []
  const isUnderWay = startRound(round, pages)
  for (let tab = 0; tab < (fault === 'five-tabs' ? tabsMax : 1 + drawBelow(random, 2)); tab++) {
    const page = await browser.openTab()
    if (fault === 'full-storage') await browser.setStorageFull?.(page, url, true)
    await page.goto(`${url}/?${query.toString()}`)
    pages.push(page)
  }
  const setOffline = async (isOffline: boolean): Promise<void> => {
    for (const page of pages) await browser.setOffline?.(page, isOffline)
    // A browser that can't be told so finds no connection.
    if (!browser.setOffline) proxy.treat = isOffline ? () => ({ kind: 'cut-before' }) : treatmentsOf(network, random)
  }
  if (fault === 'offline') await setOffline(true)
  await waitUntil(isUnderWay, `${fault}: events are tracked, stored and sent`)
  // The tabs have corrected what was refused by then.
  if (network === 'together') await Promise.all(pages.map((page) => page.evaluate('sluice.flush()')))
  if (fault === 'kill-browser') {
    await browser.kill()
    return true
  }
  if (fault === 'kill-pages') await browser.killPages()
  if (fault === 'reload') for (const page of pages) await page.reload()
  if (fault === 'offline') await setOffline(false)
  const [first] = pages
  if (fault === 'full-storage' && first) await browser.setStorageFull?.(first, url, false)
  // A tab that stays open when the browser is killed later is as good as one that is closed now.
  if (fault === 'nothing') return false
  await Promise.all(pages.map((page) => page.close().catch(() => undefined)))
  return false
}

/**
 * Begins a round with `pages`, which get open afterwards. The function resolves with whether they have tracked a number
 * of events by chance, whether their store has as many, and whether a request with events was sent, as far as they can.
 */
function startRound({ fault, random, reported, proxy }: RoundParts, pages: readonly Tab[]): () => Promise<boolean> {
  const wanted = eventsMin + drawBelow(random, eventsMin)
  const stores = fault !== 'offline' && fault !== 'full-storage'
  const before = { reported: reported.size, sent: proxy.events().length }
  return async () => {
    const tracked = await Promise.all(pages.map((page) => page.evaluate<number>('countTracked()')))
    return (
      tracked.reduce((sum, count) => sum + count) >= wanted &&
      (!stores || reported.size >= before.reported + wanted) &&
      (fault === 'offline' || proxy.events().length > before.sent)
    )
  }
}

/** Opens pages that track nothing, each of which sends what the ones before have left, until the store is empty. */
async function drain(browser: RunningBrowser, url: string): Promise<void> {
  await browser.closeTabs()
  const page = await browser.openTab()
  const isEmpty = async (): Promise<boolean> => {
    await page.goto(url)
    await page.evaluate('sluice.flush()')
    return page.evaluate<boolean>('readQueue().then((values) => values.length === 0)')
  }
  await waitUntil(isEmpty, 'the store is empty')
}

async function compare(
  rig: Rig,
  siteId: string,
  reported: Map<string, SentEvent[]>,
  proxy: CollectProxy,
): Promise<Balance> {
  const drainedAt = Date.now()
  const range = `start_date=${Date.UTC(1970, 0, 2)}&end_date=${drainedAt + dayMs}`
  await waitUntil(async () => {
    const path = `/api/v1/stats?site_id=${siteId}&metric=event_count&${range}`
    return (await rig.call<{ complete_until: number }>('GET', path)).complete_until > drainedAt
  }, 'every event that was accepted is counted')
  const { rows, lost, twice, altered, differences } = await compareRows([await readRows(rig, siteId, range)], {
    keyOf: ({ event_id }) => event_id,
    expected: reported.keys(),
    isAsSent: (row, id) =>
      reported.get(id)?.some((event) => isSame(event, row) && isTime(event.timestamp, row.timestamp)) ?? true,
  })
  return {
    reported: reported.size,
    stored: rows,
    requests: proxy.requests.filter(({ events }) => events.length > 0).length,
    sent: proxy.events().length,
    lost,
    twice,
    altered,
    examples: differences,
  }
}

async function readRows(rig: Rig, siteId: string, range: string): Promise<Row[]> {
  const rows: Row[] = []
  let before = ''
  for (;;) {
    const path = `/api/v1/events?site_id=${siteId}&${range}&limit=1000${before}`
    const page = await rig.call<{ events: Row[]; next_before: string | null }>('GET', path)
    rows.push(...page.events)
    if (page.next_before === null) return rows
    before = `&before=${page.next_before}`
  }
}

/**
 * Whether an event may be stored at a time: at its own, or at a later correction when Sluice refuses its own. A page
 * that is killed may have sent the corrected event without having reported it again.
 */
function isTime(own: number, stored: number): boolean {
  return stored === own || (isRefused(own) && stored > Date.now() - correctionMsMax && stored <= Date.now())
}

/** Whether a row is the event as the page's store had it, but for its time. */
function isSame(event: SentEvent, row: Row): boolean {
  // The SDK's own event on a full queue has no nested properties.
  const { nested, ...properties } = event.properties as { nested?: { ok: boolean; text: string } }
  const flat = { ...properties, ...(nested && { 'nested.ok': nested.ok, 'nested.text': nested.text }) }
  const fields = ['event_type', 'session_id', 'anonymous_id', 'url', 'device_type'] as const
  return (
    fields.every((name) => event[name] === row[name]) &&
    Object.keys(row.properties).length === Object.keys(flat).length &&
    Object.entries(flat).every(([name, value]) => row.properties[name] === value)
  )
}
