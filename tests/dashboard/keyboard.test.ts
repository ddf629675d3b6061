import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { headline } from './support/numbers.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { seededEvents } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

/** The element that has the focus, if something else is shown at its centre. What is higher than the window is left out. */
const hiddenFocus = `(() => {
  const focused = document.activeElement
  const { left, top, width, height } = focused.getBoundingClientRect()
  if (focused === document.body || height > innerHeight / 2) return []
  const shown = document.elementFromPoint(left + width / 2, top + height / 2)
  const isSeen = shown !== null && (focused.contains(shown) || shown.contains(focused))
  return isSeen ? [] : [focused.outerHTML.slice(0, 120)]
})()`

describeWithChromium('the keyboard alone', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.send(seededEvents({ siteId, now: Date.now(), sessions: 300 }))
  })
  afterAll(() => rig.stop())

  const overview = async (): Promise<Page> => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}`)
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBeGreaterThan(0))
    return page
  }

  const focused = (page: Page) =>
    page.evaluate<string>(
      `(() => { const e = document.activeElement; return (e?.getAttribute('aria-label') ?? e?.textContent ?? '').trim() })()`,
    )

  /** Presses Tab until the focus is on something of this name. */
  const tabTo = async (page: Page, name: RegExp): Promise<void> => {
    for (let presses = 0; presses < 80; presses++) {
      await page.keyboard.press('Tab')
      if (name.test(await focused(page))) return
    }
    throw new Error(`Tab never reaches ${String(name)}`)
  }

  it('signs in, begins with a link past the navigation, and reaches the numbers', async () => {
    const { page } = await visitors.open()
    await page.goto(`${rig.url}/sites/${siteId}`)
    await page.getByLabel('API key').waitFor()
    await waitUntilPasses(async () => expect(await page.evaluate('document.activeElement?.tagName')).toBe('INPUT'))
    await page.keyboard.type(rig.admin)
    await page.keyboard.press('Enter')
    await page.getByRole('navigation', { name: 'Main' }).waitFor()
    await page.reload()
    await page.getByRole('radio', { name: 'Visitors', exact: true }).waitFor()
    await page.keyboard.press('Tab')
    expect(await focused(page)).toBe('Skip to the page')
    await page.keyboard.press('Enter')
    await tabTo(page, /^(Visitors)/)
    await page.keyboard.press('ArrowRight')
    await page.waitForURL(/metric=unique_sessions/)
  })

  it.each([
    ['d', 'today'],
    ['e', 'yesterday'],
    ['w', '7d'],
    ['n', '91d'],
    ['m', 'month'],
    ['p', 'last_month'],
    ['y', 'year'],
    ['l', '12mo'],
    ['a', 'all'],
  ])('chooses by %s the range %s', async (key, range) => {
    const page = await overview()
    await page.keyboard.press(key)
    await page.waitForURL((url) => url.searchParams.get('range') === range)
  })

  it('takes keys that come before the page has been painted, each as a step of the history', async () => {
    const page = await overview()
    await page.evaluate(`(async () => {
      for (const key of ['w', 'x', 'ArrowLeft']) {
        dispatchEvent(new KeyboardEvent('keydown', { key }))
        await new Promise((resolve) => setTimeout(resolve))
      }
    })()`)
    const search = () => page.evaluate<string>('decodeURIComponent(location.search)')
    const rendered = () => page.getByLabel('Time range', { exact: true }).inputValue()
    await waitUntilPasses(async () => {
      const [, from = '', to = ''] = /^\?range=([\d-]{10})\.\.([\d-]{10})&compare=none$/.exec(await search()) ?? []
      expect(Date.parse(to) - Date.parse(from)).toBe(6 * 86_400_000)
      expect(await rendered()).toBe('chosen')
    })
    await page.goBack()
    await waitUntilPasses(async () => {
      expect(await search()).toBe('?range=7d&compare=none')
      expect(await rendered()).toBe('7d')
    })
    await page.goBack()
    expect(await search()).toBe('?range=7d')
  })

  it('chooses by F 28 days, by X the comparison, by the arrows the days before and after', async () => {
    const page = await overview()
    await page.keyboard.press('w')
    await page.waitForURL(/range=7d/)
    await page.keyboard.press('f')
    await page.waitForURL((url) => !url.searchParams.has('range') || url.searchParams.get('range') === '28d')
    await page.keyboard.press('x')
    await page.waitForURL(/compare=none/)
    await page.keyboard.press('e')
    await page.waitForURL(/range=yesterday/)
    await page.keyboard.press('ArrowLeft')
    const day = new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 10)
    await page.waitForURL((url) => url.searchParams.get('range') === `${day}..${day}`)
  })

  it('goes to pages by G and a letter, opens the help by ?, the filter by /, and closes by Escape', async () => {
    const page = await overview()
    await page.keyboard.press('g')
    await page.keyboard.press('l')
    await page.waitForURL(/\/live/)
    await page.goBack()
    await page.getByRole('radio', { name: 'Visitors', exact: true }).waitFor()
    for (const key of ['?', '/']) {
      await page.keyboard.press(key)
      await page.getByRole('dialog').waitFor()
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'hidden' })
    }
  })

  it('lists by ? the keys in the order of the bar', async () => {
    const page = await overview()
    await page.keyboard.press('?')
    const names = page.getByRole('dialog').locator('dt')
    await names.first().waitFor()
    const keys = await names.allInnerTexts()
    expect(keys[0]).toBe('D')
    expect(keys.indexOf('X')).toBeGreaterThan(keys.indexOf('C'))
    expect(keys.indexOf('/')).toBe(keys.indexOf('X') + 1)
  })

  it('goes from the overview to the live events with the same filters by R', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?f=device_type:equals:mobile`)
    await page.getByRole('radio', { name: 'Visitors', exact: true }).waitFor()
    await page.keyboard.press('r')
    await page.waitForURL(/\/live\?f=device_type:equals:mobile$/)
  })

  it('draws a line around the option of a list that the arrow keys are on', async () => {
    const page = await overview()
    await page.keyboard.press('/')
    await page.getByRole('combobox', { name: 'Property', exact: true }).click()
    await page.keyboard.press('ArrowDown')
    await page.locator('.menu-item.active').waitFor()
    const outline = `getComputedStyle(document.querySelector('.menu-item.active')).outlineStyle`
    expect(await page.evaluate(outline)).toBe('solid')
    await page.emulateMedia({ forcedColors: 'active' })
    expect(await page.evaluate(outline)).toBe('solid')
  })

  it('goes by Tab from an open list that scrolls to the next control', async () => {
    const page = await overview()
    const field = page.getByLabel('Time zone', { exact: true })
    await field.focus()
    await page.keyboard.press('Tab')
    const next = await focused(page)
    await field.focus()
    await page.keyboard.press('ArrowDown')
    const list = page.getByRole('listbox')
    await list.waitFor()
    const scrolls = ({ scrollHeight, clientHeight }: Record<string, number>) =>
      Number(scrollHeight) > Number(clientHeight)
    expect(await list.evaluate(scrolls)).toBe(true)
    await page.keyboard.press('Tab')
    await list.waitFor({ state: 'detached' })
    expect(await focused(page)).toBe(next)
  })

  it('takes no letter for a shortcut in a field or with a modifier', async () => {
    const page = await overview()
    const before = page.url()
    await page.keyboard.press('Alt+w')
    await page.keyboard.press('Control+Shift+e')
    await page.keyboard.press('/')
    const field = page
      .getByRole('dialog')
      .getByRole('combobox')
      .or(page.getByRole('dialog').getByRole('textbox'))
      .first()
    await field.focus()
    await page.keyboard.type('wdm')
    expect(page.url()).toBe(before)
  })

  it('leaves the arrows and Space to the browser while Shift is pressed', async () => {
    const page = await overview()
    await page.keyboard.press('Shift+ArrowLeft')
    await page.keyboard.press('x')
    await page.waitForURL(/compare=none/)
    expect(new URL(page.url()).searchParams.get('range')).toBeNull()
    await page.goto(`${rig.url}/sites/${siteId}/live`)
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await page.keyboard.press('Shift+Space')
    await page.keyboard.press('?')
    await page.getByRole('dialog').waitFor()
    expect(await page.getByRole('button', { name: 'Pause', includeHidden: true }).count()).toBe(1)
  })

  it('opens the menu of a page without panels by .', async () => {
    const page = await overview()
    await page.goto(`${rig.url}/sites/${siteId}/events`)
    await page.locator('main .more').first().waitFor({ state: 'attached' })
    await page.keyboard.press('.')
    await page.locator('.popover.actions:popover-open').waitFor()
  })

  it('steps to panels by J and K, opens their menu by ., shows the table by T', async () => {
    const page = await overview()
    await page.keyboard.press('j')
    const first = await focused(page)
    expect(first).not.toBe('')
    await page.keyboard.press('j')
    expect(await focused(page)).not.toBe(first)
    await page.keyboard.press('k')
    expect(await focused(page)).toBe(first)
    // The menu is there with the numbers that it takes away.
    await page.locator('[data-panel]:focus').getByRole('button', { name: 'More' }).waitFor({ state: 'attached' })
    await page.keyboard.press('.')
    await page.locator('.popover.actions:popover-open').waitFor()
    await page.keyboard.press('Escape')
    await page.locator('.popover.actions:popover-open').waitFor({ state: 'hidden' })
    const tables = await page.getByRole('table').count()
    await page.getByRole('figure').first().focus()
    await page.keyboard.press('t')
    await waitUntilPasses(async () => expect(await page.getByRole('table').count()).toBeGreaterThan(tables))
  })

  it('removes the last filter by Escape', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?f=country:equals:DE&f=device_type:equals:mobile`)
    await page
      .getByRole('button', { name: /^Remove filter/ })
      .first()
      .waitFor()
    await page.keyboard.press('Escape')
    await page.waitForURL((url) => url.searchParams.getAll('f').length === 1)
    expect(new URL(page.url()).searchParams.get('f')).toBe('country:equals:DE')
  })

  it('chooses the comparison and the filters on a narrow page, too', async () => {
    const { page } = await visitors.open({ viewport: { width: 640, height: 900 } })
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?f=country:equals:DE`)
    await page.getByRole('button', { name: /^View/ }).waitFor()
    await page.keyboard.press('x')
    await page.waitForURL(/compare=none/)
    await page.keyboard.press('/')
    await page.getByRole('dialog', { name: 'Filter', exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.keyboard.press('Escape')
    await page.waitForURL((url) => !url.searchParams.has('f'))
  })

  it('never has the focus behind the bars of a low window', async () => {
    const { page } = await visitors.open({ viewport: { width: 640, height: 450 } })
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?f=device_type:equals:mobile`)
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBeGreaterThan(0))
    await page.waitForLoadState('networkidle')
    const hidden: string[] = []
    for (const key of ['Tab', 'Shift+Tab']) {
      for (let presses = 0; presses < 60; presses++) {
        await page.keyboard.press(key)
        hidden.push(...(await page.evaluate<string[]>(hiddenFocus)))
      }
    }
    expect(hidden).toEqual([])
  })

  it('leaves the page where it is while the focus is in the bar above it', async () => {
    const page = await overview()
    await page.waitForLoadState('networkidle')
    const scrolled = () => page.evaluate<number>('scrollY')
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
    const before = await scrolled()
    expect(before).toBeGreaterThan(0)
    await page.getByLabel('Time zone', { exact: true }).focus()
    const positions: string[] = []
    for (const key of ['T', 'o', 'k', 'y', 'o', 'Escape', 'Shift+Tab', 'Shift+Tab', 'Tab', 'Tab', 'Tab', 'Tab']) {
      await page.keyboard.press(key)
      // The browser scrolls when it draws the next frame.
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
      positions.push(`${key} ${await focused(page)} ${await scrolled()}`)
    }
    expect(positions).toEqual(positions.map((each) => each.replace(/\d+$/, String(before))))
  })

  /**
   * Opens a page of the site, tabs to the button of the first name, and presses Enter, which removes the button: each
   * time the next name gets the focus.
   */
  const expectFocus = async (path: string, first: RegExp, following: RegExp[]): Promise<void> => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}${path}`)
    await page.getByRole('button', { name: first }).first().waitFor()
    await tabTo(page, first)
    for (const name of following) {
      const removed = await focused(page)
      await page.keyboard.press('Enter')
      await page.getByRole('button', { name: removed, exact: true }).waitFor({ state: 'detached' })
      await waitUntilPasses(async () => expect(await focused(page)).toMatch(name))
    }
  }

  it('keeps the focus where a filter was that it removes', () =>
    expectFocus(
      '?f=country:equals:DE&f=device_type:equals:mobile&f=event_type:equals:click',
      /^Remove filter: device/,
      [/^Remove filter: event/, /^Remove filter: country/, /^Filter$/],
    ))

  it('keeps the focus in a step of a funnel whose conditions it removes', () =>
    expectFocus(
      `/funnels?steps=${encodeURIComponent('page_view;country:equals:DE;device_type:equals:mobile>click')}`,
      /^Remove filter: country/,
      [/^Remove filter: device/, /^Add a condition to step 1$/],
    ))

  it('keeps the focus in the conditions of a cohort of which it removes the last one', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    await page.getByRole('button', { name: 'New cohort' }).first().click()
    await page.getByRole('button', { name: 'Add a condition' }).click()
    const remove = page.getByRole('button', { name: 'Remove this condition' })
    await remove.nth(1).press('Enter')
    await waitUntilPasses(async () => {
      expect(await remove.count()).toBe(1)
      expect(await focused(page)).toBe('Add a condition')
    })
  })

  it('has the focus in the page when it clears the filters that left nothing', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/events?f=country:equals:IS`)
    await page.getByRole('button', { name: 'Clear the filters' }).press('Enter')
    await page.getByRole('button', { name: 'Clear the filters' }).waitFor({ state: 'detached' })
    await waitUntilPasses(async () =>
      expect(await page.evaluate(`document.activeElement.closest('main') !== null`)).toBe(true),
    )
  })

  it('goes on to the next row when the record of its own is deleted elsewhere', async () => {
    for (const path of ['one', 'other']) {
      const body = { site_id: siteId, url: `http://127.0.0.1:9/${path}`, events: ['alert'] }
      await rig.call('POST', '/api/v1/webhooks', body)
    }
    const { page, expectMessages } = await visitors.open()
    // The page may ask for the deliveries of the webhook that is deleted.
    expectMessages(/status of 404.*\/deliveries/)
    await openSession(page, rig.url, rig.admin)
    await page.clock.install()
    await page.goto(`${rig.url}/sites/${siteId}/webhooks`)
    const rows = page.getByRole('row').getByRole('button', { name: '127.0.0.1' })
    await rows.first().press('Enter')
    await page.getByRole('dialog').waitFor()
    const id = String(new URL(page.url()).searchParams.get('open'))
    const next = String(await rows.nth(1).textContent())
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await rig.call('DELETE', `/api/v1/webhooks/${id}`)
    // The list is asked for again every 10 s.
    await page.clock.runFor(11_000)
    await waitUntilPasses(async () => {
      expect(await rows.count()).toBe(1)
      expect(await focused(page)).toBe(next)
    })
  })

  it.each(['c', '/', 't'])('has the focus nowhere after a dialog that %s opened while nothing had it', async (key) => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}?f=country:equals:DE`)
    await page.getByRole('figure').locator('canvas').waitFor()
    expect(await page.evaluate('document.activeElement === document.body')).toBe(true)
    await page.keyboard.press(key)
    const dialog = page.getByRole('dialog').or(page.locator('.popover:popover-open'))
    await dialog.first().waitFor()
    await page.keyboard.press('Escape')
    await dialog.first().waitFor({ state: 'hidden' })
    expect(await page.evaluate('document.activeElement === document.body')).toBe(true)
  })

  it('is on the title of an alert rule that is opened, once the rule is there, and then of the list', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      site_id: siteId,
      name: 'Late',
      condition: { metric: 'event_count', operator: 'greater_than', threshold: 1_000_000, window: '5m' },
      notification_type: 'webhook',
      notification_config: { url: 'http://127.0.0.1:9/' },
    })
    const held = Promise.withResolvers<undefined>()
    await page.route(`**/api/v1/alerts/${id}`, async (route) => {
      await held.promise
      await route.fallback()
    })
    await page.goto(`${rig.url}/sites/${siteId}/alerts`)
    await page.getByRole('button', { name: 'Late', exact: true }).focus()
    await page.keyboard.press('Enter')
    await page.locator('main .skeleton').first().waitFor()
    // The frame after the one in which the list was replaced has been painted.
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
    held.resolve(undefined)
    await page.getByRole('heading', { level: 1, name: 'Late' }).waitFor()
    await waitUntilPasses(async () => expect(await focused(page)).toBe('Late'))
    await page.getByRole('button', { name: 'All alerts' }).focus()
    await page.keyboard.press('Enter')
    await waitUntilPasses(async () => expect(await focused(page)).toBe('Alerts'))
  })

  it('gives the focus back to what opened a dialog', async () => {
    const page = await overview()
    await page.goto(`${rig.url}/settings/keys`)
    await page.getByRole('button', { name: 'Create key' }).waitFor()
    await tabTo(page, /^Create key$/)
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    expect(await focused(page)).toBe('Create key')
  })

  it('has no effect as shortcuts once they are switched off', async () => {
    const page = await overview()
    await page.goto(`${rig.url}/settings/session`)
    await page.getByRole('checkbox', { name: /single-key/i }).click()
    await page.goto(`${rig.url}/sites/${siteId}`)
    await page.getByRole('radio', { name: 'Visitors', exact: true }).waitFor()
    await page.keyboard.press('w')
    await page.keyboard.press('?')
    await page.getByRole('radio', { name: 'Sessions', exact: true }).click()
    await page.waitForURL(/metric=/)
    expect(page.url()).toBe(`${rig.url}/sites/${siteId}?metric=unique_sessions`)
    expect(await page.getByRole('dialog').count()).toBe(0)
  })
})
