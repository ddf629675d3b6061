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

/** Pages whose rows open records. */
const hasRows = ['Events', 'Cohorts', 'Imports', 'Exports', 'Webhooks', 'Alerts', 'API Keys']

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
    async (name, path) => {
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
      // An alert rule takes the place of the list.
      const back = page.getByRole('button', { name: 'All alerts' })
      const opened = name === 'Alerts' ? back : page.locator('dialog[open]').first()
      // The address names a record before its dialog takes keys.
      const close = (): Promise<void> =>
        waitUntilPasses(async () => {
          if ((await back.count()) > 0) await back.click()
          else await page.keyboard.press('Escape')
          expect(new URL(page.url()).searchParams.get('open')).toBeNull()
          expect(await page.locator('dialog[open]').count()).toBe(0)
        })
      const rows = await page.locator('.open-row').all()
      for (const row of rows.slice(0, 3)) {
        await row.click()
        await opened.waitFor()
        await page.locator('.skeleton').first().waitFor({ state: 'detached' })
        await expectNothing()
        await close()
      }
      if (hasRows.includes(name)) expect(rows.length).toBeGreaterThan(0)
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

  it('in words without end is broken into lines, so that everything stays inside a window of any width', async () => {
    const word = 'W'.repeat(70)
    const property = `p${word}`
    const site = { site_id: 'long' }
    await rig.call('POST', '/api/v1/sites', { ...site, name: word })
    const event = {
      ...site,
      event_id: 'long-1',
      event_type: 'click',
      timestamp: Date.now(),
      properties: { [property]: 1 },
    }
    await rig.send([event])
    await rig.call('POST', '/api/v1/webhooks', { ...site, url: `http://127.0.0.1:9/${word}`, events: ['alert'] })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const places: [path: string, shown: string, opened?: RegExp][] = [
      [`?property=${property}`, '.panel-head .select'],
      ['/live', '.feed-row'],
      ['/webhooks', '.strip'],
      ['/webhooks', '.strip', /^http.*W{70}/],
      ['/webhooks', '.strip', /^Switch site: W{70}/],
    ]
    for (const [path, shown, opened] of places) {
      await page.setViewportSize({ width: 1280, height: 900 })
      await page.goto(`${rig.url}/sites/long${path}`)
      await page.locator(shown).first().waitFor()
      await page.waitForLoadState('networkidle')
      if (opened !== undefined) await page.getByRole('button', { name: opened }).click()
      for (const width of [1280, 390, 320]) {
        await page.setViewportSize({ width, height: 900 })
        // The chart takes the new width in a moment.
        await waitUntilPasses(async () => {
          const found = await page.evaluate<string[]>(tooWide)
          expect({ path, opened, width, found }).toEqual({ path, opened, width, found: [] })
        })
      }
    }
    // Nor does a long name leave the others so little room that words are broken.
    await rig.createKey({ name: word, scopes: ['stats:read', 'events:write'], site_ids: ['long', 'second'] })
    await page.setViewportSize({ width: 1024, height: 900 })
    await page.goto(`${rig.url}/settings/keys`)
    await page.getByTitle('long, second').waitFor()
    const lines = page.evaluate(`document.querySelector('[title="long, second"]').getClientRects().length`)
    expect(await lines).toBeLessThanOrEqual(2)
  })
})

/** Names what is wider than its place: the page, a dialog or a heading of a section, and what is outside of the window. */
const tooWide = `
  [...document.querySelectorAll(':root, .section-head > *, dialog[open], dialog[open] .dialog-head > *')]
    .filter((each) => each.scrollWidth > each.clientWidth || each.getBoundingClientRect().right > innerWidth)
    .map((each) => each.tagName + '.' + each.className)
`
