import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { addResources } from './support/resources.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { routesOf } from './support/routes.ts'
import type { SentEvent } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

/** Ways out of text, attributes, scripts and addresses; each would set the canary. */
const payload = `"'><img src=x onerror="window.canary=1"><svg onload=window.canary=2>`
const siteId = '"><img src=x onerror=window.canary=3>'
const script = `</script><script>window.canary=4</script>`
const address = 'javascript:window.canary=5'

describeWithChromium('text that would be markup', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    const now = Date.now()
    await rig.call('POST', '/api/v1/sites', { site_id: siteId, name: payload })
    const events: SentEvent[] = Array.from({ length: 40 }, (_, n) => ({
      site_id: siteId,
      event_type: n % 3 === 0 ? `<img src=x onerror=window.canary=6>` : 'page_view',
      timestamp: now - 1 - n * 3_600_000 * (n % 2),
      event_id: `${n}<img src=x onerror=window.canary=7>`,
      session_id: `${n % 5}<svg onload=window.canary=8>`,
      user_id: `${n % 7}<svg onload=window.canary=8>`,
      anonymous_id: `<b>${n % 7}</b>`,
      url: n % 2 === 0 ? `https://example.com/${payload}?${script}` : address,
      referrer: n % 2 === 0 ? `https://evil.example/${payload}` : address,
      country: 'DE',
      device_type: 'mobile',
      properties: { plan: payload, [payload.slice(0, 60)]: script, address, rtl: '‮' + 'אבג' },
    }))
    await rig.send(events)
    await addResources(rig, siteId, `${payload}${script}`)
  })
  afterAll(() => rig.stop())

  it('would be noticed: as markup it sets the canary', async () => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/404|ERR_/)
    await page.setContent(`<p>${payload}</p>`)
    await waitUntilPasses(async () => expect(await page.evaluate('window.canary')).toBeGreaterThan(0))
  })

  it.each(Object.entries(routesOf(siteId)))(
    'is shown as text on the page %s and in what its rows open',
    async (_, path) => {
      const { page } = await visitors.open()
      await openSession(page, rig.url, rig.admin)
      await page.addInitScript({ content: 'window.canary = 0' })
      await page.goto(rig.url + path)
      await page.getByRole('heading', { level: 1 }).first().waitFor()
      await page.waitForLoadState('networkidle')
      const expectNothing = async (): Promise<void> => {
        expect(await page.evaluate<number>('window.canary')).toBe(0)
        expect(await page.locator('img[src="x"], a[href^="javascript:" i], iframe, svg[onload]').count()).toBe(0)
      }
      await expectNothing()
      // The page shows something of it: otherwise the test would show nothing.
      if (path !== '/settings/session') {
        await waitUntilPasses(async () => expect(await page.locator('body').innerText()).toMatch(/onerror|onload/))
        await expectNothing()
      }
      const rows = await page.getByRole('row').getByRole('link').or(page.getByRole('row').getByRole('button')).all()
      for (const row of rows.slice(0, 3)) {
        if (!(await row.isVisible())) continue
        await row.click()
        await page.waitForLoadState('networkidle')
        await expectNothing()
        await page.keyboard.press('Escape')
      }
      const menus = page.getByRole('button', { name: 'More', exact: true })
      for (let menu = 0; menu < Math.min(await menus.count(), 3); menu++) {
        if (!(await menus.nth(menu).isVisible())) continue
        await menus.nth(menu).click()
        await expectNothing()
        await page.keyboard.press('Escape')
      }
      await expectNothing()
    },
  )
})
