import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { findViolations } from './support/axe.ts'
import { dialogsOf } from './support/dialogs.ts'
import { addResources } from './support/resources.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { routesOf } from './support/routes.ts'
import { seededEvents } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'

const siteId = 'shop'
const looks = [
  { colorScheme: 'light', width: 1280, height: 900 },
  { colorScheme: 'dark', width: 1280, height: 900 },
  { colorScheme: 'dark', width: 390, height: 844 },
  { colorScheme: 'light', width: 390, height: 844 },
] as const

type Look = (typeof looks)[number]

describeWithChromium('axe finds nothing', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.send(seededEvents({ siteId, now: Date.now() }))
    await addResources(rig, siteId)
    await rig.call('POST', '/api/v1/sites', { site_id: 'empty', name: 'Nothing yet' })
  })
  afterAll(() => rig.stop())

  const expectNothing = async (page: Page, shown: readonly Look[] = looks): Promise<void> => {
    const found: string[] = []
    let widthBefore = 0
    for (const { colorScheme, width, height } of shown) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.setViewportSize({ width, height })
      const look = `${colorScheme}, ${width} wide`
      // The elements depend on the width: in another theme, only colours are others.
      const isOnlyColours = width === widthBefore
      widthBefore = width
      for (const { rule, elements } of await findViolations(page, isOnlyColours)) {
        found.push(...elements.map((element) => `${look}: ${rule}: ${element}`))
      }
      // Only tables may be wider than the screen, within a box of their own.
      const overflow = (await page.evaluate<number>('document.documentElement.scrollWidth')) - width
      if (overflow > 0) found.push(`${look}: the page is ${overflow} px wider than the screen`)
    }
    expect(found).toEqual([])
  }

  const open = async (path: string, viewport = { width: 1280, height: 900 }): Promise<Page> => {
    const { page } = await visitors.open({ viewport })
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url + path)
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await page.waitForLoadState('networkidle')
    return page
  }

  it.each(Object.entries(routesOf(siteId)))('on the page %s, light and dark, wide and narrow', async (_, path) => {
    await expectNothing(await open(path))
  })

  it('on the sign-in page and on a first page without events', async () => {
    const { page } = await visitors.open()
    await page.goto(`${rig.url}/signin`)
    await page.getByLabel('API key').waitFor()
    await expectNothing(page)
    await expectNothing(await open('/sites/empty'))
  })

  it.each(dialogsOf(siteId))('while the dialog of %s is open', async (_, path, opener) => {
    for (const isWide of [true, false]) {
      const shown = looks.filter(({ width }) => width > 1000 === isWide)
      const page = await open(path, shown[0])
      await opener(page, isWide)
      await page.getByRole('dialog').or(page.locator('.popover:popover-open')).first().waitFor()
      await expectNothing(page, shown)
    }
  })
})
