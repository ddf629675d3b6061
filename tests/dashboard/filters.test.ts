import '@sluice/runtime/parse-exactly'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { expectedStats, type RawEvent, type RawStatsQuery } from '../support/oracle/expected-stats.ts'
import { copied, headline, runInShell } from './support/numbers.ts'
import { rowOf, settledHeadline, startOfDay } from './support/overview.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { rawEvents, seededEvents, type SentEvent } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'
const dayMs = 86_400_000

describeWithChromium('a filter of the overview', () => {
  const visitors = useBrowser()
  const now = Date.now()
  const events = seededEvents({ siteId, now })
  /** Visitors of eleven countries; those of Iceland are the fewest. */
  const widespread: SentEvent[] = ['DE', 'FR', 'US', 'GB', 'IN', 'BR', 'JP', 'CH', 'PL', 'ES', 'IS'].flatMap(
    (country) =>
      Array.from({ length: country === 'IS' ? 1 : ['DE', 'FR', 'US', 'GB'].includes(country) ? 4 : 2 }, (_, n) => ({
        site_id: 'widespread',
        event_type: 'page_view',
        timestamp: now - 60_000 * n,
        event_id: `${country}-${n}`,
        session_id: `${country}-${n}`,
        anonymous_id: `${country}-${n}`,
        country,
      })),
  )
  let rig: Rig
  let raw: RawEvent[]

  beforeAll(async () => {
    rig = await startRig()
    raw = rawEvents(events)
    await rig.send(events)
    await rig.send(widespread)
  })
  afterAll(() => rig.stop())

  const overview = async (search = '', site = siteId): Promise<Page> => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${site}${search}`)
    return page
  }

  const oracle = (query: Omit<RawStatsQuery, 'site_id' | 'environment'>) =>
    expectedStats(raw, { site_id: siteId, environment: 'prod', ...query })

  it('is set by a click on a row, stays through a reload, and is taken back by Back', async () => {
    const page = await overview('?range=28d')
    const all = await settledHeadline(page, 'Events')
    await rowOf(page, 'Countries', 'Germany').click()
    await page.waitForURL(/f=country/)
    const range = { start_date: startOfDay(Date.now(), 'UTC') - 27 * dayMs, end_date: Date.now() }
    const german = oracle({ ...range, metric: 'event_count', country: 'DE' }).value
    const expectEvents = (count: number) =>
      waitUntilPasses(async () => expect(await headline(page, 'Events')).toBe(count))
    await expectEvents(german)
    expect(german).toBeLessThan(all)
    await page
      .getByText(/from Germany/)
      .first()
      .waitFor()
    await waitUntilPasses(async () => expect(await page.title()).toContain('Germany'))
    await page.reload()
    await expectEvents(german)
    await page.goBack()
    expect(new URL(page.url()).searchParams.getAll('f')).toEqual([])
    await expectEvents(all)
    await page.goForward()
    await expectEvents(german)
  })

  it('excludes by Alt-click, is added by Shift-click, and removed by a second click', async () => {
    const page = await overview()
    const filters = () => new URL(page.url()).searchParams.getAll('f')
    const expectFilters = (expected: string[]) => waitUntilPasses(() => expect(filters()).toEqual(expected))
    await rowOf(page, 'Countries', 'Germany').click()
    await expectFilters(['country:equals:DE'])
    await rowOf(page, 'Countries', 'Germany').click()
    await expectFilters([])
    await rowOf(page, 'Countries', 'France').click({ modifiers: ['Alt'] })
    await expectFilters(['country:not_equals:FR'])
    await page.getByRole('button', { name: /^Remove filter/ }).click()
    await expectFilters([])
    await rowOf(page, 'Countries', 'Germany').click()
    await rowOf(page, 'Devices', 'mobile').click({ modifiers: ['Shift'] })
    await expectFilters(['country:equals:DE', 'device_type:equals:mobile'])
  })

  it('lists a rare value that is chosen besides frequent ones', async () => {
    const page = await overview('?range=28d&f=country:in:DE,FR,US,GB,IS', 'widespread')
    const countries = page.getByRole('region', { name: 'Countries', exact: true })
    const row = countries.getByRole('button', { name: 'Iceland', pressed: true })
    await countries.getByRole('button', { name: 'Germany', pressed: true }).waitFor()
    await waitUntilPasses(async () => {
      expect(await row.locator('[data-number]').getAttribute('data-number', { timeout: 1_000 })).toBe('1')
    })
    await waitUntilPasses(async () => expect(await countries.locator('[aria-pressed]').count()).toBe(9))
  })

  it('keeps the commas of its values when its dialog is applied', async () => {
    const filter = 'properties.plan:in:Pro\\, yearly,Basic'
    const page = await overview(`?range=28d&f=${encodeURIComponent(filter)}`)
    await page
      .getByRole('button', { name: /^Edit filter:.*Pro, yearly/ })
      .first()
      .click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByLabel(/^Values/).inputValue()).toBe('Pro\\, yearly, Basic')
    await dialog.getByLabel('Condition').selectOption({ label: 'is none of' })
    await dialog.getByRole('button', { name: 'Apply filter' }).click()
    await waitUntilPasses(() =>
      expect(new URL(page.url()).searchParams.getAll('f')).toEqual([filter.replace(':in:', ':not_in:')]),
    )
  })

  it('closes its dialog when Back leads to other filters, of which one could be overwritten', async () => {
    const page = await overview('?range=28d&f=country:equals:DE')
    await page
      .getByRole('button', { name: /^Edit filter/ })
      .first()
      .waitFor()
    await page.keyboard.press('Escape')
    await page.waitForURL((url) => !url.searchParams.has('f'))
    await page.keyboard.press('/')
    const dialog = page.getByRole('dialog')
    await dialog.waitFor()
    await page.goBack()
    await dialog.waitFor({ state: 'detached' })
    expect(new URL(page.url()).searchParams.getAll('f')).toEqual(['country:equals:DE'])
  })

  it('means what the list shows when a name and a value are typed as they are listed', async () => {
    const page = await overview('?range=28d')
    await settledHeadline(page, 'Events')
    await page.keyboard.press('/')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Property').click()
    await dialog.getByRole('option', { name: /^country/ }).waitFor()
    await dialog.getByLabel('Property').fill('country')
    await page.keyboard.press('Tab')
    await dialog.getByLabel('Value').click()
    await dialog.getByRole('option', { name: /^Germany/ }).waitFor()
    await dialog.getByLabel('Value').fill('Germany')
    await dialog.getByLabel('Value').press('Enter')
    await waitUntilPasses(() => expect(new URL(page.url()).searchParams.getAll('f')).toEqual(['country:equals:DE']))
  })

  it('by a field that the list of recent properties does not have means the field', async () => {
    const page = await overview('?range=28d')
    await settledHeadline(page, 'Events')
    await page.keyboard.press('/')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Property').click()
    await dialog.getByRole('option', { name: /^country/ }).waitFor()
    await dialog.getByLabel('Property').fill('user')
    await page.keyboard.press('Tab')
    await dialog.getByLabel('Value').fill('u-1')
    expect(await dialog.getByRole('listbox').count()).toBe(0)
    await dialog.getByLabel('Value').press('Enter')
    await waitUntilPasses(() => expect(new URL(page.url()).searchParams.getAll('f')).toEqual(['user_id:equals:u-1']))
    // The conditions of a cohort offer the same.
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    await page.getByRole('button', { name: 'New cohort' }).first().click()
    await page.getByRole('combobox', { name: 'Property' }).click()
    for (const name of ['session', 'user', 'anonymous ID', 'email (imported)']) {
      await page.getByRole('option', { name, exact: true }).waitFor()
    }
  })

  it('says at the field of the property that it is missing, also where there is no value', async () => {
    const page = await overview('?range=28d')
    await settledHeadline(page, 'Events')
    await page.keyboard.press('/')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Property').fill('')
    await page.keyboard.press('Tab')
    await dialog.getByLabel('Condition').selectOption({ label: 'exists' })
    await dialog.getByRole('button', { name: 'Apply filter' }).click()
    await waitUntilPasses(async () => {
      expect(await dialog.getByLabel('Property').getAttribute('aria-invalid')).toBe('true')
      expect(await dialog.getByRole('alert').allTextContents()).toEqual(['Choose what to filter by.'])
    })
  })

  it('leaves the other values of its dimension listed, which Shift-click adds', async () => {
    const page = await overview('?range=28d')
    const country = (name: string) => page.getByRole('region', { name: 'Countries' }).getByRole('button', { name })
    const expectChoice = async (filters: string[], pressed: Record<string, boolean>) => {
      await waitUntilPasses(() => expect(new URL(page.url()).searchParams.getAll('f')).toEqual(filters))
      for (const [name, isPressed] of Object.entries(pressed)) {
        await waitUntilPasses(async () =>
          expect([name, await country(name).getAttribute('aria-pressed')]).toEqual([name, String(isPressed)]),
        )
      }
    }
    await country('Germany').click()
    await expectChoice(['country:equals:DE'], { Germany: true, France: false })
    await country('France').click({ modifiers: ['Shift'] })
    await expectChoice(['country:in:DE,FR'], { Germany: true, France: true, India: false })
    const range = { start_date: startOfDay(Date.now(), 'UTC') - 27 * dayMs, end_date: Date.now() }
    const [german, french] = ['DE', 'FR'].map(
      (each) => oracle({ ...range, metric: 'event_count', country: each }).value,
    )
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBe((german ?? 0) + (french ?? 0)))
    await country('Germany').click({ modifiers: ['Shift'] })
    await expectChoice(['country:equals:FR'], { Germany: false, France: true })
    await country('India').click()
    await expectChoice(['country:equals:IN'], { India: true, France: false })

    // The list of all values adds them as well, and stays open.
    await page.getByRole('region', { name: 'Pages', exact: true }).getByRole('button', { name: 'All' }).click()
    const dialog = page.getByRole('dialog', { name: 'All pages' })
    await dialog.getByRole('button', { name: '/about', exact: true }).click({ modifiers: ['Shift'] })
    await dialog.getByRole('button', { name: '/contact', exact: true }).click({ modifiers: ['Shift'] })
    await expectChoice(['country:equals:IN', 'path:in:/about,/contact'], {})
    await dialog.getByRole('button', { name: '/contact', exact: true, pressed: true }).waitFor()
    await dialog.getByRole('button', { name: '/shop', exact: true, pressed: false }).waitFor()
  })

  it('of hundreds of values is asked for by POST, and is refused once no request can hold it', async () => {
    const users = Array.from({ length: 550 }, (_, n) => `org/crm/user/${1_000 + n}`)
    const chosen = users.slice(0, 350)
    await rig.send(
      users.map((user_id, n) => ({
        site_id: 'crm',
        event_type: 'page_view',
        timestamp: now - n,
        event_id: `crm-${n}`,
        user_id,
        country: n % 2 === 0 ? 'DE' : 'FR',
      })),
    )
    const page = await overview('?range=28d', 'crm')
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBe(users.length))
    await page.keyboard.press('/')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Property').fill('user')
    await page.keyboard.press('Tab')
    await dialog.getByLabel('Condition').selectOption({ label: 'is one of' })
    await dialog.getByLabel(/^Values/).fill(users.join(', '))
    await dialog.getByRole('button', { name: 'Apply filter' }).click()
    await dialog.getByText('The filters are too long.').waitFor()
    await dialog.getByLabel(/^Values/).fill(chosen.join(', '))
    await dialog.getByRole('button', { name: 'Apply filter' }).click()
    const expectChosen = async () => {
      await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBe(chosen.length))
      const germany = page.getByRole('region', { name: 'Countries' }).getByRole('button', { name: 'Germany' })
      await waitUntilPasses(async () => {
        const number = germany.locator('[data-number]')
        expect(await number.getAttribute('data-number', { timeout: 1_000 })).toBe(String(chosen.length / 2))
      })
    }
    await expectChosen()
    await page.reload()
    await expectChosen()
    const more = page.getByRole('radiogroup').getByRole('button', { name: 'More', exact: true }).nth(2)
    for (const entry of ['Copy curl', 'Copy curl with relative dates']) {
      const curl = await copied(page, more, entry)
      const { data } = (await runInShell(curl, rig.admin)) as { data: { results: { data: { value: number } }[] } }
      expect(data.results.map((result) => result.data.value)).toEqual([chosen.length])
    }
    const search = new URL(page.url()).search
    for (const path of ['events', 'live']) {
      const answered = page.waitForResponse((response) => response.url().includes(`/api/v1/${path}?`))
      await page.goto(`${rig.url}/sites/crm/${path}${search}`)
      expect((await answered).status()).toBe(200)
    }

    await page.goto(`${rig.url}/sites/crm?range=28d&f=user_id:in:${users.slice(0, 400).join(',')}`)
    const germany = page.getByRole('region', { name: 'Countries' }).getByRole('button', { name: 'Germany' })
    await germany.click({ modifiers: ['Shift'] })
    await page.getByText('The filters are too long. Use fewer values.', { exact: true }).first().waitFor()
    expect(new URL(page.url()).searchParams.getAll('f')).toHaveLength(1)
  })

  it('by an integer that a double can’t hold has all of its digits', async () => {
    const orders = ['9007199254740992', '9007199254740993'].map((order, n) => ({
      site_id: 'orders',
      event_type: 'order',
      timestamp: now - n,
      event_id: `order-${n}`,
      properties: { order: JSON.rawJSON(order), list: [JSON.rawJSON(order)] },
    }))
    await rig.send(orders)
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/orders/events?range=7d`)
    const samples = page.getByRole('row').filter({ hasText: 'order: 900' })
    await samples.filter({ hasText: '9007199254740993' }).getByRole('button').first().click()
    await page.getByRole('dialog').getByText('[9007199254740993]').waitFor()
    await page.getByRole('dialog').getByText('9007199254740993', { exact: true }).click()
    await page.waitForURL(/properties\.order:equals:9007199254740993/)
    await waitUntilPasses(async () =>
      expect(await samples.allTextContents()).toEqual([expect.stringContaining('9007199254740993')]),
    )
  })
})
