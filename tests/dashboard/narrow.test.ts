import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { copied, readCsv } from './support/numbers.ts'
import { openSession, type Rig } from './support/rig.ts'
import { startSeededRig } from './support/seeded-rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

describeWithChromium('a narrow page', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startSeededRig(siteId)
  })
  afterAll(() => rig.stop())

  const open = async (path: string, options: BrowserContextOptions = {}): Promise<Page> => {
    const { page } = await visitors.open({ viewport: { width: 390, height: 844 }, ...options })
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}${path}`)
    return page
  }

  it('shows all columns of the tables of the events, though its list has only three', async () => {
    const page = await open('/events')
    const list = page.getByRole('table', { name: 'What was sent' }).locator('tbody tr').first().locator('td:visible')
    await waitUntilPasses(async () => expect(await list.count()).toBe(3))
    const more = page.locator('main').getByRole('button', { name: 'More', exact: true })
    await waitUntilPasses(async () => expect(await more.count()).toBe(2))
    for (const menu of await more.all()) {
      const [fields = []] = readCsv(await copied(page, menu, 'Copy CSV'))
      expect(fields.length).toBeGreaterThan(3)
      await menu.click()
      await page.getByRole('button', { name: 'Show table', exact: true }).click()
      const row = page.getByRole('dialog').locator('tbody tr').first()
      await row.waitFor()
      expect(await row.locator('td:visible').count()).toBe(fields.length)
      await page.keyboard.press('Escape')
      await row.waitFor({ state: 'detached' })
    }
  })

  it('names the columns of a cohort’s weeks', async () => {
    const page = await open('/cohorts')
    await page.getByRole('button', { name: 'Readers Résumé' }).click()
    const table = page.getByRole('dialog').getByRole('table', { name: 'Who came back' })
    const header = table.locator('th', { hasText: 'Came back' })
    await header.waitFor()
    const [name, cell] = await Promise.all([header, table.locator('td').nth(2)].map((each) => each.boundingBox()))
    expect(name?.width).toBeGreaterThan(1)
    // It stands above its column.
    expect(name?.x).toBe(cell?.x)
    expect(name?.width).toBe(cell?.width)
  })

  it.each([390, 320])('of %d px shows the value of a tap on the chart within the window', async (width) => {
    const page = await open('?range=7d&by=hour&zone=Asia/Kolkata', { hasTouch: true, viewport: { width, height: 844 } })
    const chart = page.getByRole('figure').first()
    const plot = chart.locator('.u-over')
    const tip = chart.locator('.chart-tip')
    for (const share of [0.05, 0.45, 0.55, 0.95]) {
      const { width: plotWidth } = (await plot.boundingBox()) ?? { width: NaN }
      await plot.tap({ position: { x: plotWidth * share, y: 60 } })
      await tip.waitFor()
      const box = await tip.boundingBox()
      expect(box?.x).toBeGreaterThanOrEqual(0)
      expect((box?.x ?? NaN) + (box?.width ?? NaN)).toBeLessThanOrEqual(width)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      // A tap elsewhere hides it: the next one is a first one again.
      await page.getByRole('heading', { level: 1 }).tap()
      await tip.waitFor({ state: 'detached' })
    }
  })
})
