import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { findViolations } from './support/axe.ts'
import { inEachDialog } from './support/dialogs.ts'
import { openSession, type Rig } from './support/rig.ts'
import { type PageName, routesOf } from './support/routes.ts'
import { startSeededRig } from './support/seeded-rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'

const siteId = 'shop'
const sizes = [
  { width: 1280, height: 900 },
  { width: 390, height: 844 },
]

describeWithChromium('axe finds nothing', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startSeededRig(siteId)
    await rig.call('POST', '/api/v1/sites', { site_id: 'empty', name: 'Nothing yet' })
  })
  afterAll(() => rig.stop())

  /** `dialog`: what is open, for the failure. */
  const expectNothing = async (page: Page, dialog?: string): Promise<void> => {
    const found: string[] = []
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      // What is refetched, as each minute, is pale until the answer.
      await page.locator('main .old').first().waitFor({ state: 'detached' })
      // In another theme, only colours are others.
      for (const { rule, elements } of await findViolations(page, colorScheme === 'dark')) {
        found.push(...elements.map((element) => `${colorScheme}: ${rule}: ${element}`))
      }
    }
    const width = page.viewportSize()?.width ?? 0
    // Only tables may be wider than the screen, within a box of their own.
    const overflow = (await page.evaluate<number>('document.documentElement.scrollWidth')) - width
    if (overflow > 0) found.push(`the page is ${overflow} px wider than the screen`)
    expect({ dialog, width, found }).toEqual({ dialog, width, found: [] })
  }

  const open = async (path: string): Promise<Page> => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url + path)
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await page.waitForLoadState('networkidle')
    return page
  }

  it.each(Object.entries(routesOf(siteId)) as [PageName, string][])(
    'on the page %s and in its dialogs, light and dark, wide and narrow',
    async (name, path) => {
      const page = await open(path)
      for (const size of sizes) {
        await page.setViewportSize(size)
        await expectNothing(page)
        await inEachDialog(page, name, (dialog) => expectNothing(page, dialog))
      }
    },
  )

  it('on the sign-in page and on a first page without events', async () => {
    const { page } = await visitors.open()
    await page.goto(`${rig.url}/signin`)
    await page.getByLabel('API key').waitFor()
    for (const shown of [page, await open('/sites/empty')]) {
      for (const size of sizes) {
        await shown.setViewportSize(size)
        await expectNothing(shown)
      }
    }
  })
})
