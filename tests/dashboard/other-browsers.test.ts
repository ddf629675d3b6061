import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { seededEvents } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

// Chromium is made to do what other browsers, or their touch screens, do.
describeWithChromium('what other browsers do', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.send(seededEvents({ siteId, now: Date.now(), sessions: 20 }))
  })
  afterAll(() => rig.stop())

  const open = async (path: string, options: BrowserContextOptions = {}): Promise<Page> => {
    const { page } = await visitors.open(options)
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url + path)
    return page
  }
  const menu = (page: Page) => page.locator('.popover.actions:popover-open')
  const openMenu = async (page: Page) => {
    const button = page.getByRole('button', { name: 'More', exact: true }).first()
    await button.click()
    await menu(page).waitFor()
    // The first action gets the focus in the next frame.
    await waitUntilPasses(async () => expect(await menu(page).locator(':focus').count()).toBe(1))
    return button
  }
  /** Two frames: what an event has changed is rendered. */
  const painted = (page: Page) =>
    page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')

  it('keeps a menu open whose item is pressed where buttons do not take the focus', async () => {
    const page = await open(`/sites/${siteId}`)
    await openMenu(page)
    // Safari looks for the nearest element around the button that can have the focus.
    await page.evaluate(
      `document.querySelector('.popover:popover-open button').parentElement.closest('[tabindex]').focus()`,
    )
    await painted(page)
    expect(await menu(page).count()).toBe(1)
  })

  it('closes a menu by a second press of its button, and by a press outside where the browser does not', async () => {
    const page = await open(`/sites/${siteId}`)
    const button = await openMenu(page)
    await button.click()
    await painted(page)
    expect(await menu(page).count()).toBe(0)
    // Safari focuses the panel around the button.
    await openMenu(page)
    await button.evaluate(`(element) => {
      element.addEventListener('mousedown', (event) => {
        event.preventDefault()
        element.parentElement.closest('[tabindex]').focus()
      }, { once: true })
    }`)
    await button.click()
    await painted(page)
    expect(await menu(page).count()).toBe(0)
    // By the keyboard, also back to the button.
    await openMenu(page)
    await page.keyboard.press('Shift+Tab')
    await menu(page).waitFor({ state: 'detached' })
    // Safari before 18.3 closes no popover by a press outside, as one that is called manual.
    await page.evaluate(`for (const each of document.querySelectorAll('.popover.actions')) each.popover = 'manual'`)
    await openMenu(page)
    await page.mouse.click(5, 5)
    await menu(page).waitFor({ state: 'detached' })
  })

  it('closes a drawer by a tap beside it, which presses nothing below', async () => {
    const page = await open(`/sites/${siteId}/events`, { hasTouch: true, viewport: { width: 820, height: 1100 } })
    const rows = page.getByRole('table', { name: 'What was sent' }).getByRole('button')
    await rows.first().click()
    const drawer = page.getByRole('dialog')
    await drawer.getByRole('button', { name: 'Copy JSON' }).waitFor()
    const box = await rows.nth(2).boundingBox()
    await page.touchscreen.tap((box?.x ?? 0) + 5, (box?.y ?? 0) + 5)
    await drawer.waitFor({ state: 'detached' })
    await painted(page)
    expect(await drawer.count()).toBe(0)
    expect(new URL(page.url()).searchParams.get('open')).toBeNull()
  })

  it('keeps a secret that is shown only once when the browser closes its dialog', async () => {
    const page = await open('/settings/keys')
    await page.getByRole('button', { name: 'Create key' }).first().click()
    const form = page.getByRole('dialog')
    await form.getByLabel('Name').fill('Till')
    await form.getByRole('button', { name: 'Create key' }).click()
    const secret = page.locator('.secret')
    await secret.getByText(/svc_prod_\w{34}/).waitFor()
    // Chrome on Android does so at the second Back.
    await page.evaluate(`document.querySelector('dialog[open]').close()`)
    await waitUntilPasses(async () => expect(await page.locator('dialog:modal .secret').count()).toBe(1))
    await page.getByRole('button', { name: 'I have saved it' }).click()
    await page.locator('dialog').waitFor({ state: 'detached' })
  })

  it('leaves the keys of an input method to it', async () => {
    const page = await open(`/sites/${siteId}`)
    await page.getByRole('button', { name: 'More', exact: true }).first().waitFor()
    await page.keyboard.press('/')
    const dialog = page.getByRole('dialog')
    const field = dialog.getByLabel('Property')
    const option = dialog.getByRole('option', { name: /^country/ })
    await field.click()
    await option.waitFor()
    const chosen = await field.inputValue()
    const active = () => field.getAttribute('aria-activedescendant')
    const before = await active()
    for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) {
      await field.dispatchEvent('keydown', { key, isComposing: true })
      await painted(page)
      // As Safari sends it.
      await field.dispatchEvent('keydown', { key, keyCode: 229 })
      await painted(page)
    }
    expect([await field.inputValue(), await active()]).toEqual([chosen, before])
    expect(await option.isVisible()).toBe(true)
  })
})
