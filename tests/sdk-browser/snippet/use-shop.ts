import { afterAll, afterEach, beforeAll } from '@jest/globals'
import type { BrowserContextOptions } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Rig, startRig } from '../../dashboard/support/rig.ts'
import { useBrowser, type Visit, type Visitors } from '../../dashboard/support/use-browser.ts'
import { type CollectProxy, type SentEvent, startCollectProxy } from '../../support/collect-proxy.ts'
import { scriptTag, type Site, startSite } from '../support/site.ts'

export const siteId = 'shop'

type Attributes = Record<string, string | undefined>

/** A row of Sluice. */
interface Row {
  event_type: string
  event_id: string
  [field: string]: unknown
}

/** A website with the script, its visitors, and the Sluice behind it. */
export interface Shop {
  visitors: Visitors
  rig: Rig
  /** Stands between the pages and Sluice. After each test it forwards everything again, and has seen nothing. */
  proxy: CollectProxy
  site: Site
  /** The key of the pages. */
  key: string
  /** The script element; `attributes` beside the address, or in place of the site and the key. */
  tag: (attributes?: Attributes) => string
  /** Opens a page with the script, without automatic page views unless the attributes say so. */
  open: (attributes?: Attributes, html?: string, options?: BrowserContextOptions) => Promise<Visit>
  /** The events of a type, or all of them, once so many were sent. */
  sent: (count: number, type?: string) => Promise<SentEvent[]>
  /** The rows of the last 24 hours. */
  stored: () => Promise<Row[]>
}

/** One for the tests of a file: `rig`, `proxy`, `site` and `key` are there once they run. */
export function useShop(): Shop {
  const visitors = useBrowser()
  const shop = {
    visitors,
    tag: (attributes: Attributes = {}) => scriptTag(shop.proxy.url, { site: siteId, key: shop.key, ...attributes }),
    open: async (attributes: Attributes = {}, html = '', options: BrowserContextOptions = {}) => {
      shop.site.show(shop.tag({ 'data-auto-page': 'false', ...attributes }) + html)
      const visit = await visitors.open(options)
      await visit.page.goto(shop.site.url)
      return visit
    },
    sent: async (count: number, type?: string) => {
      await waitUntil(() => shop.proxy.events(type).length >= count, `${count} events are sent`)
      return shop.proxy.events(type)
    },
    stored: async () => {
      const path = `/api/v1/events?site_id=${siteId}&period=24h&limit=1000`
      return (await shop.rig.call<{ events: Row[] }>('GET', path)).events
    },
  } as Shop

  beforeAll(async () => {
    shop.rig = await startRig()
    shop.proxy = await startCollectProxy(shop.rig.url, { isPatient: true })
    shop.site = await startSite()
    const fields = { scopes: ['events:write'], site_ids: [siteId], rate_limits: { events_per_minute: 1_000_000 } }
    shop.key = (await shop.rig.createKey({ name: 'page', ...fields })).key
  })

  afterEach(() => {
    shop.proxy.requests.length = 0
    shop.proxy.treat = () => ({ kind: 'forward' })
  })

  afterAll(async () => {
    shop.site.stop()
    await shop.proxy.stop()
    await shop.rig.stop()
  })

  return shop
}
