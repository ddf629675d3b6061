import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { loadDashboard } from '@sluice/dashboard/load'
import { gzipBytes, measured, startMeasuring } from './support/measure.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { routesOf } from './support/routes.ts'
import { seededEvents } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'

const siteId = 'shop'

describeWithChromium('the first load', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.send(seededEvents({ siteId, now: Date.now(), sessions: 150 }))
  })
  afterAll(() => rig.stop())

  /** Loads the overview as a browser that knows nothing yet; returns the page and the addresses of what is not data. */
  const load = async (path: string) => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await startMeasuring(page)
    const loaded: string[] = []
    page.on('response', (response) => {
      if (response.url().startsWith(rig.url) && !new URL(response.url()).pathname.startsWith('/api/'))
        loaded.push(response.url())
    })
    await page.goto(rig.url + path)
    await page.waitForLoadState('networkidle')
    return { page, loaded }
  }

  const kilobytes = async (urls: readonly string[]) => {
    const bytes = await Promise.all(urls.map(gzipBytes))
    return bytes.reduce((sum, each) => sum + each, 0) / 1_000
  }

  it('is at most 120 kB, and at most 10 requests until the first number', async () => {
    const { page, loaded } = await load(`/sites/${siteId}`)
    // The network is idle, too, before a query that was answered 503 is sent again.
    await page.locator('[data-number]:not([data-number=""])').first().waitFor({ state: 'attached' })
    const { requestsToFirstNumber } = await measured(page)
    expect(await kilobytes(loaded)).toBeLessThanOrEqual(120)
    expect(requestsToFirstNumber).toBeLessThanOrEqual(10)
  })

  it.each(Object.entries(routesOf(siteId)))('moves nothing on the page %s while it loads', async (_, path) => {
    const { page } = await load(path)
    const { layoutShift, shifted } = await measured(page)
    expect(layoutShift <= 0.02 ? [] : [layoutShift, ...shifted]).toEqual([])
  })

  it('of another page brings a script of at most 25 kB', () => {
    const pages = [...loadDashboard().assets].filter(([name]) => name.startsWith('page-') && name.endsWith('.js'))
    expect(pages.length).toBeGreaterThanOrEqual(13)
    const large = pages.filter(([, { encoded }]) => encoded.gzip.length > 25_000)
    expect(large.map(([name, { encoded }]) => [name, encoded.gzip.length])).toEqual([])
  })
})
