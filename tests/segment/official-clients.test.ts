import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { Analytics } from '@segment/analytics-node'
import { waitUntil } from '@sluice/runtime/wait-until'
import { launchChromium } from '../dashboard/support/chromium.ts'
import { describeWithChromium } from '../dashboard/support/use-browser.ts'
import { type CollectProxy, startCollectProxy } from '../support/collect-proxy.ts'
import { useStoringGateway } from '../support/storing-gateway.ts'
import { failFirstAttempts, type FailingRequests } from './fail-first-attempts.ts'

const serverEvents = 9_700
/**
 * Clients that send batches get many more messages: 150 make so few requests that, in some runs, no answer was lost.
 */
const pageEvents = { fetch: 150, batching: 1_000 }

const rig = useStoringGateway()
let proxy: CollectProxy
let failing: FailingRequests

beforeAll(async () => {
  proxy = await startCollectProxy(rig.gateway.service.url)
  failing = failFirstAttempts(proxy)
})

afterAll(async () => {
  await proxy.stop()
})

interface StoredCounts {
  /** Rows, with the numbers in the messages. */
  rows: number
  numbers: number
  least: number
  greatest: number
}

async function countStored(siteId: string): Promise<StoredCounts> {
  const { rows } = await rig.stores.clickHouse.query<StoredCounts>(
    `SELECT count() AS rows, uniqExact(properties['n']) AS numbers,
      min(toInt64(properties['n'])) AS least, max(toInt64(properties['n'])) AS greatest
    FROM events WHERE site_id = {site_id:String}`,
    { site_id: siteId },
  )
  return rows[0] ?? { rows: 0, numbers: 0, least: 0, greatest: 0 }
}

/** Waits until the messages 1 to `count` of a site are stored, each of them once. */
async function expectEachOnce(siteId: string, count: number): Promise<void> {
  await waitUntil(async () => (await countStored(siteId)).numbers === count, `${count} events of ${siteId} are stored`)
  expect(await countStored(siteId)).toStrictEqual({ rows: count, numbers: count, least: 1, greatest: count })
}

test('analytics-node delivers 9,700 messages of every call once, while answers are lost and requests refused', async () => {
  const siteId = 'node'
  const key = await rig.gateway.createKey({ siteIds: [siteId] })
  const before = failing.delivered()
  const analytics = new Analytics({ writeKey: key, host: proxy.url, flushAt: 50, flushInterval: 500 })
  const failures: unknown[] = []
  analytics.on('error', (error) => failures.push(error))
  const user = (n: number) => ({ userId: `user-${n % 97}` })
  const calls = [
    (n: number) => {
      analytics.track({ ...user(n), event: 'Order Completed', properties: { n } })
    },
    (n: number) => {
      analytics.page({ ...user(n), name: 'Home', properties: { n, url: 'https://shop.example/' } })
    },
    (n: number) => {
      analytics.screen({ ...user(n), name: 'Cart', properties: { n } })
    },
    (n: number) => {
      analytics.identify({ ...user(n), traits: { n } })
    },
    (n: number) => {
      analytics.group({ ...user(n), groupId: 'g', traits: { n } })
    },
    (n: number) => {
      analytics.track({ anonymousId: `visitor-${n % 89}`, event: 'Viewed', properties: { n } })
    },
  ]
  for (let n = 1; n <= serverEvents; n++) calls[n % calls.length]?.(n)
  await analytics.closeAndFlush({ timeout: 120_000 })
  expect(failures).toStrictEqual([])
  expect(failing.refusals()).toStrictEqual([])
  // The test is only useful if messages were sent more than once.
  expect(failing.delivered() - before).toBeGreaterThan(serverEvents)
  expect(Math.min(...failing.injected())).toBeGreaterThan(0)
  await expectEachOnce(siteId, serverEvents)
})

describeWithChromium('analytics.js in Chromium', () => {
  test('delivers messages of both of its ways of sending once, from a page of the key’s origin', async () => {
    const script = await readFile(createRequire(import.meta.url).resolve('@segment/analytics-next/dist/umd/index.js'))
    const pages = createServer((incoming, response) => {
      const isScript = incoming.url === '/analytics.js'
      response.writeHead(200, { 'Content-Type': isScript ? 'text/javascript' : 'text/html; charset=utf-8' })
      response.end(isScript ? script : '<title>Shop</title><script src="/analytics.js"></script>')
    })
    await new Promise<void>((resolve) => pages.listen(0, '127.0.0.1', resolve))
    const origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`
    const browser = await launchChromium()
    try {
      for (const [way, count] of Object.entries(pageEvents)) {
        const siteId = `page-${way}`
        const key = await rig.gateway.createKey({ siteIds: [siteId], allowedOrigins: [origin] })
        const before = failing.delivered()
        const context = await browser.newContext()
        const page = await context.newPage()
        const hosts = new Set<string>()
        page.on('request', (request) => hosts.add(new URL(request.url()).host))
        await page.goto(`${origin}/pricing?utm_source=news`)
        await page.evaluate(sendMessages, { key, apiHost: `${new URL(proxy.url).host}/v1`, way, count })
        // A message whose answer was lost is stored before its second attempt.
        await waitUntil(() => failing.delivered() - before > count, 'messages are sent more than once')
        await expectEachOnce(siteId, count)
        expect([...hosts].sort()).toStrictEqual([origin, proxy.url].map((each) => new URL(each).host).sort())
        await context.close()
      }
      expect(failing.refusals()).toStrictEqual([])
      const { rows } = await rig.stores.clickHouse.query<object>(
        `SELECT event_type, url, session_id, user_id, anonymous_id != '' AS has_visitor, properties['title'] AS title,
          properties['utm_source'] AS source
        FROM events WHERE site_id = 'page-fetch' AND properties['n'] = '1'`,
      )
      expect(rows).toStrictEqual([
        {
          event_type: 'Added to Cart',
          url: `${origin}/pricing?utm_source=news`,
          session_id: '',
          user_id: '',
          has_visitor: 1,
          title: 'Shop',
          source: 'news',
        },
      ])
    } finally {
      await browser.close()
      await new Promise((resolve) => pages.close(resolve))
    }
  })
})

interface Sending {
  key: string
  apiHost: string
  way: string
  count: number
}

/** Runs in the page: sends the messages 1 to `count`, with Segment's default settings but for address and metrics. */
async function sendMessages({ key, apiHost, way, count }: Sending): Promise<void> {
  interface AnalyticsBrowser {
    load(settings: object): Promise<[{ track(event: string, properties: object): Promise<unknown> }, unknown]>
  }
  const { AnalyticsNext } = globalThis as unknown as { AnalyticsNext: { AnalyticsBrowser: AnalyticsBrowser } }
  const deliveryStrategy = way === 'batching' ? { strategy: 'batching', config: { size: 10, timeout: 200 } } : undefined
  const segment = { apiKey: key, apiHost, protocol: 'http', ...(deliveryStrategy && { deliveryStrategy }) }
  const [analytics] = await AnalyticsNext.AnalyticsBrowser.load({
    writeKey: key,
    // Without a sample rate of 0, the client sends its own metrics to Segment. The timer makes it do so at once.
    cdnSettings: { integrations: { 'Segment.io': segment }, metrics: { sampleRate: 0, flushTimer: 10 } },
  })
  for (let n = 1; n <= count; n++) await analytics.track('Added to Cart', { n })
}
