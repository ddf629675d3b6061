import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { openSession, type Rig, startRig } from './support/rig.ts'
import type { SentEvent } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'
/** Sites are listed in the order of their ids. */
const lastSiteId = 'site-9'

describeWithChromium('a sorted table', () => {
  const visitors = useBrowser()
  const now = Date.now()
  /** Pages with two visitors each, and one with a single visitor and the most events: the last one by visitors. */
  const visits: SentEvent[] = Array.from({ length: 130 }, (_, n) => ({
    site_id: siteId,
    event_type: 'page_view',
    timestamp: now - 2 * 86_400_000 - n,
    event_id: `visit-${n}`,
    anonymous_id: n < 120 ? `visitor-${n}` : 'reader',
    session_id: n < 120 ? `session-${n}` : 'reading',
    url: n < 120 ? `https://example.com/page-${n % 60}` : 'https://example.com/reader',
  }))
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.call('POST', '/api/v1/sites', { site_id: siteId })
    await rig.send(visits)
  })
  afterAll(() => rig.stop())

  it('of all values ranks those as well that are far down', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?range=7d&metric=visitors`)
    await page.getByRole('region', { name: 'Pages', exact: true }).getByRole('button', { name: 'All' }).click()
    const rows = page.getByRole('dialog', { name: 'All pages' }).getByRole('row')
    await rows.last().getByText('/reader').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Events', exact: true }).click()
    await waitUntilPasses(async () => {
      expect(await rows.nth(1).textContent()).toMatch(/^\/reader/)
    })
    // Each row has the value that it is ranked by.
    const values = await rows.locator('td:nth-child(3) [data-number]').count()
    expect(values).toBe(61)
  })

  it('of sites ranks those as well that were not on the screen', async () => {
    for (let n = 0; n < 60; n++) {
      await rig.call('POST', '/api/v1/sites', { site_id: `site-${n}` })
    }
    const reads = Array.from({ length: 3 }, (_, n) => ({
      site_id: lastSiteId,
      event_type: 'page_view',
      timestamp: now - 60_000 - n,
      event_id: `read-${n}`,
      anonymous_id: `reader-${n}`,
    }))
    await rig.send(reads)
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url)
    await page.getByRole('row').nth(61).waitFor()
    await page.getByRole('columnheader', { name: 'Visitors' }).getByRole('button').click()
    await waitUntilPasses(async () => {
      expect(await page.getByRole('row').nth(1).textContent()).toContain(lastSiteId)
    })
    await waitUntilPasses(async () => {
      expect(await page.getByRole('row').locator('[data-number]').count()).toBe(61)
    })
  })
})
