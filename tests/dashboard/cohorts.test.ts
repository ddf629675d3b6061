import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Locator, Page } from 'playwright-core'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { seededEvents, type SentEvent } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

interface Analysis {
  cohort_id: string
  cohort_name: string
  size: number
}

describeWithChromium('cohorts', () => {
  const visitors = useBrowser()
  const events = seededEvents({ siteId, now: Date.now() })
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.send(events)
  })
  afterAll(() => rig.stop())

  /** The users with an event that meets a condition. */
  const usersWith = (condition: (event: SentEvent) => boolean): Set<unknown> =>
    new Set(events.filter((event) => event.user_id !== undefined && condition(event)).map((event) => event.user_id))

  const numberOf = async (shown: Locator): Promise<number> =>
    Number(await shown.locator('[data-number]').first().getAttribute('data-number'))

  /** Types into a field that offers values, and leaves it. */
  const type = async (page: Page, field: Locator, text: string): Promise<void> => {
    await field.click()
    await field.fill(text)
    await page.keyboard.press('Tab')
  }

  /** Opens the form of a new cohort, and fills it with a condition on the country. */
  const fillForm = async (page: Page, { name, country }: { name: string; country: string }): Promise<void> => {
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    await page.getByRole('button', { name: 'New cohort' }).first().click()
    await page.getByLabel('Name', { exact: true }).fill(name)
    await type(page, page.getByRole('combobox', { name: 'Property' }).first(), 'country')
    await type(page, page.getByRole('combobox', { name: 'Value' }).first(), country)
  }

  it('have while they are written the size that their analysis has once they are saved', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await fillForm(page, { name: 'German buyers', country: 'DE' })
    const preview = page.locator('.cohort-size')
    const germans = usersWith(({ country }) => country === 'DE')
    const all = usersWith(() => true)
    await waitUntilPasses(async () => expect(await numberOf(preview)).toBe(germans.size))
    const share = Math.round((germans.size / all.size) * 10_000) / 100
    await waitUntilPasses(async () => {
      expect(await preview.textContent()).toContain(`${germans.size} users, ${share}%`)
    })

    await page.getByRole('button', { name: 'Add a condition' }).first().click()
    // The field that is to be filled in has the focus, and says so.
    await page.getByRole('button', { name: 'Save cohort' }).click()
    await page.getByText('Complete every condition').waitFor()
    await waitUntilPasses(async () => {
      const marked = page.locator('input[aria-label="Property"][aria-invalid="true"]:focus')
      expect(await marked.count()).toBe(1)
    })
    await type(page, page.getByRole('combobox', { name: 'Property' }).nth(1), 'event_type')
    await type(page, page.getByRole('combobox', { name: 'Value' }).nth(1), 'purchase')
    const buyers = usersWith(({ country, event_type }) => country === 'DE' && event_type === 'purchase')
    expect(buyers.size).toBeLessThan(germans.size)
    await waitUntilPasses(async () => expect(await numberOf(preview)).toBe(buyers.size))

    await page.getByRole('button', { name: 'Save cohort' }).click()
    await page.getByRole('dialog').getByText('German buyers').first().waitFor()
    const { cohorts } = await rig.call<{ cohorts: { cohort_id: string }[] }>('GET', `/api/v1/cohorts?site_id=${siteId}`)
    const path = `/api/v1/analytics/cohorts?site_id=${siteId}&cohort_id=${cohorts[0]?.cohort_id ?? ''}&weeks=4`
    const analysis = await rig.call<Analysis>('GET', path)
    expect(analysis).toMatchObject({ cohort_name: 'German buyers', size: buyers.size })
    await waitUntilPasses(async () => expect(await numberOf(page.getByRole('dialog'))).toBe(buyers.size))
  })

  it('are not opened by a click inside a table of their row', async () => {
    const criteria = { type: 'and', conditions: [{ property: 'country', operator: 'equals', value: 'FR' }] }
    await rig.call('POST', '/api/v1/cohorts', { site_id: siteId, name: 'Tabled', criteria })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    const row = page.locator('main tbody > tr', { hasText: 'Tabled' })
    await row.getByRole('button', { name: 'More', exact: true }).click()
    await page.getByRole('button', { name: 'Show table', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.locator('td').first().click()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(new URL(page.url()).search).toBe('')
  })

  it('are not saved by themselves after an edit, when a save was refused', async () => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/status of 503/)
    await openSession(page, rig.url, rig.admin)
    const names: string[] = []
    await page.route(/\/api\/v1\/cohorts$/, async (route) => {
      if (route.request().method() !== 'POST') return route.fallback()
      names.push((route.request().postDataJSON() as { name: string }).name)
      if (names.length > 1) return route.fallback()
      const json = { success: false, error: 'Service temporarily unavailable', timestamp: Date.now() }
      return route.fulfill({ status: 503, headers: { 'Retry-After': '60' }, json })
    })
    await page.clock.install()
    await fillForm(page, { name: 'Wrong name', country: 'FR' })
    await page.getByRole('button', { name: 'Save cohort' }).click()
    await page.getByText('Service temporarily unavailable').first().waitFor()
    await page.getByLabel('Name', { exact: true }).fill('Right name')
    await waitUntilPasses(async () => expect(await page.getByText('Service temporarily unavailable').count()).toBe(0))
    // The save would have been repeated by then.
    await page.clock.fastForward(61_000)
    expect(names).toEqual(['Wrong name'])
    await page.getByRole('button', { name: 'Save cohort' }).click()
    await page.getByRole('dialog').getByText('Right name').first().waitFor()
    expect(names).toEqual(['Wrong name', 'Right name'])
  })

  it('are not saved a second time by themselves after a connection that broke: the first may have arrived', async () => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/ERR_CONNECTION_RESET/)
    await openSession(page, rig.url, rig.admin)
    let saves = 0
    await page.route(/\/api\/v1\/cohorts$/, (route) => {
      if (route.request().method() !== 'POST') return route.fallback()
      saves++
      return route.abort('connectionreset')
    })
    await page.clock.install()
    await fillForm(page, { name: 'Once', country: 'FR' })
    await page.getByRole('button', { name: 'Save cohort' }).click()
    const panel = page.getByRole('alert').filter({ has: page.getByRole('button', { name: 'Retry' }) })
    await panel.waitFor()
    // A repetition would be counted down, and have begun by then.
    await page.clock.runFor(61_000)
    expect(await panel.textContent()).not.toMatch(/second/)
    expect(saves).toBe(1)
  })

  it('show the values of their own when a condition before is removed', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    await page.getByRole('button', { name: 'New cohort' }).first().click()
    await page.getByRole('button', { name: 'Add a condition' }).first().click()
    for (const [at, property, values] of [
      [0, 'country', 'DE, FR'],
      [1, 'path', '/a, /b'],
    ] as const) {
      await type(page, page.getByRole('combobox', { name: 'Property' }).nth(at), property)
      await page.getByRole('combobox', { name: 'Condition', exact: true }).nth(at).selectOption('in')
      await page
        .getByRole('textbox', { name: /^Values/ })
        .nth(at)
        .fill(values)
    }
    await page.getByRole('button', { name: 'Remove this condition' }).first().click()
    const values = page.getByRole('textbox', { name: /^Values/ })
    await waitUntilPasses(async () => expect(await values.count()).toBe(1))
    expect(await values.inputValue()).toBe('/a, /b')
    await values.fill('/a, /b, ')
    expect(await values.inputValue()).toBe('/a, /b, ')
  })

  it.each([
    ['another page', '', (page: Page) => page.getByRole('link', { name: 'Overview', exact: true }).click()],
    ['the list', '/cohorts', (page: Page) => page.goBack()],
  ])('leave the reader on %s when they are saved only after that', async (name, path, leave) => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const held = Promise.withResolvers<undefined>()
    await page.route(/\/api\/v1\/cohorts$/, async (route) => {
      if (route.request().method() === 'POST') await held.promise
      await route.fallback()
    })
    await fillForm(page, { name: `Left for ${name}`, country: 'DE' })
    const sent = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/cohorts'))
    await page.getByRole('button', { name: 'Save cohort' }).click()
    await sent
    // The save can't be taken back.
    await waitUntilPasses(async () => {
      expect(await page.getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true)
    })
    await leave(page)
    const address = `${rig.url}/sites/${siteId}${path}`
    await page.waitForURL(address)
    held.resolve(undefined)
    await page.locator('.toast', { hasText: `Left for ${name} saved` }).waitFor()
    expect(page.url()).toBe(address)
    expect(await page.getByRole('dialog').count()).toBe(0)
  })

  it('keep a draft through a reload', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    await page.getByRole('button', { name: 'New cohort' }).first().click()
    await type(page, page.getByRole('combobox', { name: 'Property' }).first(), 'device_type')
    await type(page, page.getByRole('combobox', { name: 'Value' }).first(), 'mobile')
    await page.getByLabel('Name').fill('Small screens')
    await page.getByLabel('Description').fill('For the new layout')
    // Earlier the address may have the condition without its value.
    await page.waitForURL(/draft=.*mobile/)
    await page.waitForURL(/name=Small.*description=For|description=For.*name=Small/)
    await page.reload()
    await waitUntilPasses(async () => expect(await page.getByLabel('Name').inputValue()).toBe('Small screens'))
    expect(await page.getByLabel('Description').inputValue()).toBe('For the new layout')
    await waitUntilPasses(async () => {
      expect(await numberOf(page.locator('.cohort-size'))).toBe(
        usersWith(({ device_type }) => device_type === 'mobile').size,
      )
    })
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'New cohort' }).first().waitFor()
    expect(new URL(page.url()).search).not.toMatch(/draft|name|description/)
  })

  it('ask before a draft is lost that the address can’t hold, until it is saved', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    await page.getByRole('button', { name: 'New cohort' }).first().click()
    await page.getByLabel('Name', { exact: true }).fill('Listed')
    await type(page, page.getByRole('combobox', { name: 'Property' }).first(), 'user')
    await page.getByRole('combobox', { name: 'Condition', exact: true }).selectOption('in')
    const values = page.getByRole('textbox', { name: /^Values/ })
    await values.fill('u-1, u-2')
    await page.waitForURL(/draft=.*u-2/)
    const ids = Array.from({ length: 400 }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`)
    await values.fill(ids.join(', '))
    await waitUntilPasses(() => expect(new URL(page.url()).searchParams.has('draft')).toBe(false))
    const question = page.getByRole('dialog', { name: 'Leave without saving?' })
    for (const leave of [
      () => page.goBack(),
      () => page.getByRole('link', { name: 'Overview', exact: true }).click(),
    ]) {
      await leave()
      await question.getByRole('button', { name: 'Cancel' }).click()
      await question.waitFor({ state: 'detached' })
      expect(await values.inputValue()).toBe(ids.join(', '))
    }
    await page.getByRole('button', { name: 'Save cohort' }).click()
    await page.getByRole('dialog', { name: 'Listed' }).waitFor()
    expect(await question.count()).toBe(0)
  })
})
