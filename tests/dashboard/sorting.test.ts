import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Locator } from 'playwright-core'
import { openSession, type Rig, startRig } from './support/rig.ts'
import type { SentEvent } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'
/** Sites are listed in the order of their ids. */
const lastSiteId = 'site-9'

/** The element that has the focus, if it or what it stands in is clipped away. */
const clippedFocus = `(() => {
  const found = []
  for (let each = document.activeElement; each !== null; each = each.parentElement)
    if (getComputedStyle(each).clipPath !== 'none') found.push(document.activeElement.outerHTML)
  return found
})()`

/** What is used of a cell: the tests' types have no DOM. */
interface Cell {
  textContent: string
  querySelector(selector: string): { dataset: { number?: string } } | null
}

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
    await waitUntilPasses(async () => expect(await rows.nth(1).textContent()).toMatch(/^\/reader/))
    // Each row has the value that it is ranked by.
    const values = await rows.locator('td:nth-child(3) [data-number]').count()
    expect(values).toBe(61)
  })

  it('of all values has every metric of a value that is searched for, and says where it has none', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?range=7d&metric=visitors`)
    await page.getByRole('region', { name: 'Pages', exact: true }).getByRole('button', { name: 'All' }).click()
    const dialog = page.getByRole('dialog', { name: 'All pages' })
    const reader = dialog.getByRole('row').filter({ hasText: /^\/reader/ })
    await reader
      .getByTitle(/^Search for it/)
      .first()
      .waitFor()
    await dialog.getByLabel('Search').fill('read')
    await reader.locator('td:nth-child(3) [data-number="10"]').waitFor()
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
    await waitUntilPasses(async () => expect(await page.getByRole('row').nth(1).textContent()).toContain(lastSiteId))
    await waitUntilPasses(async () => expect(await page.getByRole('row').locator('[data-number]').count()).toBe(61))
  })

  it('sorts on a narrow page, too, where nothing has the focus that is not shown', async () => {
    const { page } = await visitors.open({ viewport: { width: 390, height: 844 } })
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?range=7d&metric=visitors`)
    await page.getByRole('region', { name: 'Pages', exact: true }).getByRole('button', { name: 'All' }).click()
    const dialog = page.getByRole('dialog', { name: 'All pages' })
    await dialog.getByRole('row').last().getByText('/reader').waitFor()
    await dialog.getByLabel('Search').focus()
    for (let presses = 0; presses < 12; presses++) {
      await page.keyboard.press('Tab')
      expect(await page.evaluate<string[]>(clippedFocus)).toEqual([])
    }
    await dialog.getByRole('button', { name: 'Events', exact: true }).click()
    await waitUntilPasses(async () => expect(await dialog.getByRole('row').nth(1).textContent()).toMatch(/^\/reader/))
  })

  /** Opens the Overview of a site, and from it the list of all values of a panel. */
  const openAll = async (site: string, panel: string) => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${site}?range=7d&metric=visitors`)
    await page.getByRole('region', { name: panel, exact: true }).getByRole('button', { name: 'All' }).click()
    return page.getByRole('dialog').getByRole('row')
  }
  /** The full values of a row's numbers; the text where there is none. */
  const numbersOf = (row: Locator): Promise<unknown> =>
    row
      .locator('td:not(:first-child)')
      .evaluateAll((cells: Cell[]) =>
        cells.map((cell) => cell.querySelector('[data-number]')?.dataset.number ?? cell.textContent),
      )

  it('of all values has every metric of the absent value, and of the others no less', async () => {
    // Each visit but one has a second event, without a referrer, after 10 seconds.
    const referred = Array.from({ length: 40 }, (_, n) => ({
      site_id: 'referred',
      event_type: 'page_view',
      timestamp: now - 86_400_000 + 10_000 * (n % 2),
      event_id: `referred-${n}`,
      anonymous_id: `visitor-${Math.floor(n / 2)}`,
      session_id: `session-${Math.floor(n / 2)}`,
      ...(n % 2 === 0 && n >= 8 && { referrer: `https://host-${n % 20}.example/` }),
    }))
    await rig.send(referred.filter((_, n) => n !== 29))
    const rows = await openAll('referred', 'Referrers')
    await waitUntilPasses(async () => {
      expect(await numbersOf(rows.filter({ hasText: 'Direct or unknown' }))).toEqual(['19', '23', '0', '10'])
    })
    expect(await numbersOf(rows.filter({ hasText: 'host-8.example' }))).toEqual(['2', '2', '50', '5'])
    await rows.page().getByRole('dialog').getByLabel('Search').fill('direct')
    await rows.filter({ hasText: 'host-8.example' }).waitFor({ state: 'detached' })
    expect(await rows.filter({ hasText: 'Direct or unknown' }).count()).toBe(1)
  })

  it('of all values says which numbers are beyond what is listed', async () => {
    const entries = Array.from({ length: 2_200 }, (_, n) => ({
      site_id: 'popular',
      event_type: 'page_view',
      timestamp: now - 86_400_000 + 60_000 * (n % 2),
      event_id: `popular-${n}`,
      anonymous_id: `visitor-${Math.floor(n / 2)}`,
      session_id: `session-${Math.floor(n / 2)}`,
      url: `https://example.com/${n % 2 === 0 ? `entry/${n}` : 'popular'}`,
    }))
    const bounced = Array.from({ length: 50 }, (_, n) => ({
      site_id: 'popular',
      event_type: 'page_view',
      timestamp: now - 86_400_000,
      event_id: `bounced-${n}`,
      anonymous_id: `bounced-${n}`,
      session_id: `bounced-${n}`,
      url: 'https://example.com/popular',
    }))
    await rig.send([...entries, ...bounced])
    const rows = await openAll('popular', 'Pages')
    const popular = rows.filter({ hasText: /^\/popular/ })
    const why = 'Not counted here: 1,000 other values have higher numbers.'
    await waitUntilPasses(async () => {
      expect(await numbersOf(popular)).toEqual(['1150', '1150', '100', `–${why}`])
    })
    await popular.getByTitle(why).waitFor()
  })
})
