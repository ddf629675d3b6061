import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

describeWithChromium('a form', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.call('POST', '/api/v1/sites', { site_id: siteId })
  })
  afterAll(() => rig.stop())

  const open = async (path: string): Promise<Page> => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.clock.install()
    await page.goto(`${rig.url}/sites/${siteId}${path}`)
    return page
  }
  const save = (page: Page, name = 'Save') => page.getByRole('button', { name, exact: true }).click()
  const get = (path: string) => rig.call('GET', path)

  it('changes one setting of a site that others have changed, and keeps what is typed when the record comes anew', async () => {
    const path = `/api/v1/sites/${siteId}`
    const page = await open('/settings')
    const name = page.getByLabel('Name', { exact: true })
    await name.fill('The shop')
    await rig.call('PUT', path, { timezone: 'Asia/Kolkata', conversion_event: 'order', retention_days: 90 })
    // It is refetched each minute.
    const asked = page.waitForResponse((response) => response.url().endsWith(path))
    await page.clock.runFor(61_000)
    await asked
    expect(await name.inputValue()).toBe('The shop')
    await save(page)
    const settings = { name: 'The shop', timezone: 'Asia/Kolkata', conversion_event: 'order', retention_days: 90 }
    await waitUntilPasses(async () => expect(await get(path)).toMatchObject(settings))
    // The form follows the record again.
    await waitUntilPasses(async () => {
      expect(await page.getByLabel('Time zone').inputValue()).toBe('Asia/Kolkata')
      expect(await page.getByLabel('Retention in days').inputValue()).toBe('90')
    })
    await page.getByLabel('Conversion event').fill('')
    await save(page)
    await waitUntilPasses(async () => {
      expect(await get(path)).toMatchObject({ ...settings, conversion_event: null })
    })
    await page.getByRole('button', { name: 'Switch site: The shop' }).click()
    await page
      .getByRole('dialog')
      .getByRole('link', { name: `The shop ${siteId}` })
      .waitFor()
  })

  it('changes one setting of an alert rule that others have changed, then another one of what was saved', async () => {
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      site_id: siteId,
      name: 'Orders',
      description: 'Shop',
      condition: {
        metric: 'event_count',
        operator: 'less_than',
        threshold: 1,
        window: '1h',
        event_type: 'order',
        filter: [{ property: 'country', operator: 'equals', value: 'DE' }],
      },
      notification_type: 'slack',
      notification_config: { url: 'http://127.0.0.1:9/one', channel: '#ops' },
    })
    const path = `/api/v1/alerts/${id}`
    const page = await open(`/alerts?open=${id}`)
    await page.getByLabel('Threshold').fill('7')
    await rig.call('PUT', path, {
      name: 'Few orders',
      enabled: false,
      condition: { window: '2h' },
      notification_config: { url: 'http://127.0.0.1:9/two' },
    })
    await save(page)
    await waitUntilPasses(async () => {
      expect(await get(path)).toMatchObject({
        name: 'Few orders',
        description: 'Shop',
        enabled: false,
        condition: { threshold: 7, window: '2h', event_type: 'order' },
        notification_config: { url: 'http://127.0.0.1:9/two', channel: '#ops' },
      })
    })
    // The form has what was saved: nothing of it is a change any more.
    await waitUntilPasses(async () => {
      expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Few orders')
    })
    await rig.call('PUT', path, { condition: { threshold: 9 } })
    await page.getByLabel(/^Event type/).fill('')
    await page.getByRole('button', { name: 'Remove filter: country is Germany' }).click()
    await page.getByLabel(/^Channel/).fill('')
    await page.getByLabel(/^Description/).fill('')
    await save(page)
    const saved = { metric: 'event_count', operator: 'less_than', threshold: 9, window: '2h' }
    await waitUntilPasses(async () => {
      const rule = await get(path)
      expect(rule).toMatchObject({ name: 'Few orders', description: null, enabled: false })
      expect(rule.condition).toEqual(saved)
      expect(rule.notification_config).toEqual({ url: 'http://127.0.0.1:9/two' })
    })
    // Without a change there is nothing to refuse.
    await rig.call('PUT', path, { name: 'Too few orders' })
    await save(page)
    await waitUntilPasses(async () => {
      expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Too few orders')
    })
    expect(await get(path)).toMatchObject({ name: 'Too few orders', condition: saved })
  })

  it('drags the threshold of an alert rule to the top of its chart, which does not grow meanwhile', async () => {
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      site_id: siteId,
      name: 'Dragged',
      condition: {
        metric: 'event_count',
        operator: 'greater_than',
        threshold: 7,
        window: '1h',
        event_type: 'never sent',
      },
      notification_type: 'slack',
      notification_config: { url: 'http://127.0.0.1:9/dragged' },
    })
    const page = await open(`/alerts?open=${id}`)
    const plot = page.getByRole('region', { name: 'What it would have done' }).locator('.alert-plot')
    await plot.locator('.threshold').hover()
    const box = await plot.boundingBox()
    if (box === null) throw new Error('the chart is not shown')
    await page.mouse.down()
    for (let step = 0; step < 20; step++) await page.mouse.move(box.x + 100 + step, box.y - 5)
    await page.mouse.up()
    // The top of a chart without values and a threshold of 7.
    expect(await page.getByLabel('Threshold').inputValue()).toBe('10')
    await page.close()
    await rig.call('DELETE', `/api/v1/alerts/${id}`)
  })

  it('changes the name alone of a cohort that others have changed', async () => {
    const criteria = (value: string) => ({
      type: 'and',
      scope: 'event',
      conditions: [{ property: 'country', operator: 'equals', value }],
    })
    const cohort = { site_id: siteId, name: 'Germans', criteria: criteria('DE') }
    const { cohort_id: id } = await rig.call<{ cohort_id: string }>('POST', '/api/v1/cohorts', cohort)
    const path = `/api/v1/cohorts/${id}`
    const page = await open(`/cohorts?edit=${id}`)
    await page.getByLabel('Name', { exact: true }).fill('Neighbours')
    await rig.call('PUT', path, { description: 'Of the north', criteria: criteria('DK') })
    await save(page, 'Save cohort')
    await page.getByRole('dialog').getByText('Neighbours').first().waitFor()
    expect(await get(path)).toMatchObject({
      name: 'Neighbours',
      description: 'Of the north',
      criteria: criteria('DK'),
    })
  })

  it('changes the name alone of a scheduled export that others have changed', async () => {
    const { export_id: id } = await rig.call<{ export_id: string }>('POST', '/api/v1/exports', {
      site_id: siteId,
      type: 'events',
      format: 'csv',
      name: 'Daily',
      scheduled: { frequency: 'daily', next_run: Date.now() + 86_400_000 },
    })
    const path = `/api/v1/exports/${id}`
    const page = await open(`/exports?open=${id}`)
    await page.getByRole('button', { name: 'Edit', exact: true }).click()
    const form = page.getByRole('dialog').last()
    await form.getByLabel('Name', { exact: true }).fill('Everything')
    const scheduled = { frequency: 'weekly', next_run: Date.now() + 172_800_000, paused: true }
    await rig.call('PUT', path, { scheduled })
    await form.getByRole('button', { name: 'Save' }).click()
    await waitUntilPasses(async () => {
      expect(await get(path)).toMatchObject({ name: 'Everything', scheduled })
    })
  })

  it('offers statistics by minute to an hourly schedule alone, because a day has too many', async () => {
    const page = await open('/exports')
    await page.getByRole('button', { name: 'New export' }).first().click()
    const form = page.getByRole('dialog')
    await form.getByLabel('What to export').selectOption('stats')
    const grouping = form.getByLabel('Broken down by')
    await grouping.selectOption('minute')
    for (const [frequency, chosen] of [
      ['hourly', 'minute'],
      ['daily', 'hour'],
    ] as const) {
      await form.getByLabel('Repeat').selectOption(frequency)
      await waitUntilPasses(async () => expect(await grouping.inputValue()).toBe(chosen))
    }
    expect(await grouping.getByRole('option', { name: 'Minute' }).count()).toBe(0)
    await form.getByRole('button', { name: 'Export' }).click()
    await page.getByRole('button', { name: 'Edit', exact: true }).waitFor()
  })

  it('takes a time zone that was typed completely, and not picked from the list', async () => {
    const page = await open('/../..')
    await page.getByRole('button', { name: 'Add a site' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Site ID').fill('tokyo')
    await dialog.getByLabel('Time zone').click()
    await dialog.getByLabel('Time zone').pressSequentially(' asia/tokyo')
    await dialog.getByRole('button', { name: 'Add a site' }).click()
    await page.waitForURL(/\/sites\/tokyo$/)
    expect(await get('/api/v1/sites/tokyo')).toMatchObject({ timezone: 'Asia/Tokyo' })
  })

  it('that is sent again after its answer was lost makes what it creates once', async () => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/ERR_CONNECTION_RESET/)
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url)
    let sent = 0
    await page.route('**/api/v1/sites', async (route) => {
      sent++
      if (sent > 1) return route.fallback()
      await route.fetch()
      return route.abort('connectionreset')
    })
    await page.getByRole('button', { name: 'Add a site' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Site ID').fill('lost-answer')
    await dialog.getByRole('button', { name: 'Add a site' }).click()
    await dialog.getByText(/^Sluice can’t be reached/).waitFor()
    await dialog.getByRole('button', { name: 'Add a site' }).click()
    await page.waitForURL(/\/sites\/lost-answer$/)
    expect(sent).toBe(2)
  })

  it('that is sent again while its first request is still under way says so, and not that the site exists', async () => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/ERR_CONNECTION_RESET|status of 409/)
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url)
    let sent = 0
    await page.route('**/api/v1/sites', (route) => {
      sent++
      if (sent === 1) return route.abort('connectionreset')
      if (sent > 2) return route.fallback()
      const error = 'A request with this Idempotency-Key is still under way'
      return route.fulfill({ status: 409, json: { success: false, timestamp: Date.now(), error } })
    })
    await page.getByRole('button', { name: 'Add a site' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Site ID').fill('under-way')
    await dialog.getByRole('button', { name: 'Add a site' }).click()
    await dialog.getByText(/^Sluice can’t be reached/).waitFor()
    await dialog.getByRole('button', { name: 'Add a site' }).click()
    await dialog.getByText('Your first request is still being processed. Try again in a moment.').waitFor()
    expect(await dialog.getByText(/already exists/).count()).toBe(0)
    await dialog.getByRole('button', { name: 'Add a site' }).click()
    await page.waitForURL(/\/sites\/under-way$/)
  })

  it('is sent once, also when it is submitted twice in a moment', async () => {
    const page = await open('/../../settings/keys')
    const sent: string[] = []
    page.on('request', (request) => {
      if (request.method() === 'POST') sent.push(new URL(request.url()).pathname)
    })
    await page.getByRole('button', { name: 'Create key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('submitted twice')
    await dialog.locator('form').evaluate((form: { requestSubmit(): void }) => {
      form.requestSubmit()
      form.requestSubmit()
    })
    await page.getByRole('button', { name: 'I have saved it' }).click()
    await page.getByRole('row').filter({ hasText: 'submitted twice' }).waitFor()
    expect(sent).toEqual(['/api/v1/settings/keys'])
  })

  it('takes an event type that the list does not have, as one step of the history', async () => {
    const page = await open('/retention')
    const field = page.getByLabel('Coming back is')
    const entries = () => page.evaluate<number>('history.length')
    const before = await entries()
    for (const [text, key] of [
      ['refund', 'Tab'],
      ['trial', 'Enter'],
    ] as const) {
      await field.click()
      await field.pressSequentially(text)
      await page.keyboard.press(key)
      await page.waitForURL((url) => url.searchParams.get('return_event') === text)
      expect(await field.inputValue()).toBe(text)
    }
    expect(await entries()).toBe(before + 2)
    await page.goBack()
    await waitUntilPasses(async () => expect(await field.inputValue()).toBe('refund'))
  })

  it('shows an erasure that was asked for, and keeps its id in the address', async () => {
    const page = await open('/settings')
    await page.getByLabel('User ID', { exact: true }).fill('somebody')
    await page.getByRole('button', { name: 'Erase …' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel(/erase/).fill('erase')
    await dialog.getByRole('button', { name: 'Erase', exact: true }).click()
    await page.waitForURL((url) => url.searchParams.get('erasures')?.startsWith('era_') ?? false)
    const id = new URL(page.url()).searchParams.get('erasures') ?? ''
    await page.getByRole('table', { name: 'Erasures' }).getByRole('cell', { name: id, exact: true }).waitFor()
    await dialog.waitFor({ state: 'detached' })
    expect(id).toMatch(/^era_/)
  })

  it('shows the id of the erasure of a site that it deletes, and goes on only once that is saved', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'ended' })
    const page = await open('/../ended/settings')
    await page.getByRole('button', { name: 'Delete site' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('textbox').fill('ended')
    await dialog.getByRole('button', { name: 'Delete site' }).click()
    const id = (await dialog.getByText(/^era_/).textContent()) ?? ''
    await dialog.getByRole('button', { name: 'Copy curl' }).click()
    const path = `/api/v1/sites/ended/erasures/${id}`
    expect(await page.evaluate('navigator.clipboard.readText()')).toContain(rig.url + path)
    expect(await get(path)).toMatchObject({ erasure_id: id, kind: 'site' })
    await page.keyboard.press('Escape')
    await page.mouse.click(5, 5)
    await dialog.getByRole('button', { name: 'I have saved it' }).click()
    await page.waitForURL((url) => url.pathname === '/')
  })

  it('says before an erasure how many events it will delete', async () => {
    const events = [0, 1].map((n) => ({
      site_id: 'erased',
      event_type: 'page_view',
      // Older than every range of a page.
      timestamp: Date.UTC(2015, 4, 17) + n,
      event_id: `erased-${n}`,
      user_id: 'u-33',
    }))
    await rig.send(events)
    const page = await open('/../erased/settings')
    const dialog = page.getByRole('dialog')
    for (const [id, count] of [
      ['u-33', '2 stored events will be deleted'],
      ['u-3', 'No stored event has this ID. An imported record of the user is deleted all the same.'],
    ] as const) {
      await page.getByLabel('User ID', { exact: true }).fill(id)
      await page.getByRole('button', { name: 'Erase …' }).click()
      await dialog.getByText(count, { exact: true }).waitFor()
      await dialog.getByRole('button', { name: 'Cancel' }).click()
    }
    await page.getByText('Everything before a day').click()
    await page.getByLabel(/^Day/).fill('20155-05-17')
    await page.getByRole('button', { name: 'Erase …' }).click()
    await page.getByText('Choose a day from 1971 to 2198.').waitFor()
    await page.getByLabel(/^Day/).fill('2015-05-17')
    await page.getByRole('button', { name: 'Erase …' }).click()
    await dialog.getByText('No stored event is older.').waitFor()
  })

  it('of a key for web pages has its site and a limit for each address, and later the field for its origins', async () => {
    const page = await open('/settings')
    await page.getByRole('heading', { level: 1, name: 'Site' }).waitFor()
    await page.getByRole('link', { name: 'API Keys' }).click()
    await page.getByRole('button', { name: 'Create key' }).click()
    const form = page.getByRole('dialog')
    await form.getByLabel('Name').fill('Web page')
    await waitUntilPasses(async () => {
      expect(await form.getByRole('radio', { name: 'Only these' }).isEnabled()).toBe(true)
    })
    await form.getByRole('radio', { name: 'Browser' }).check()
    expect(await form.getByRole('checkbox', { name: siteId }).isChecked()).toBe(true)
    expect(await form.getByRole('textbox', { name: 'Events per minute and IP address' }).inputValue()).toBe('300')
    await form.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('button', { name: 'I have saved it' }).click()
    const { keys } = await rig.call<{ keys: { name: string }[] }>('GET', '/api/v1/settings/keys?limit=1000')
    expect(keys.find(({ name }) => name === 'Web page')).toMatchObject({
      site_ids: [siteId],
      rate_limits: { events_per_minute_per_address: 300 },
    })
    await page.getByText('Web page').first().click()
    await page.getByRole('button', { name: 'Edit', exact: true }).click()
    await page.getByRole('textbox', { name: 'Allowed origins' }).waitFor()
  })

  it('leads to the first box of a group that is wrong, and has hints and errors spoken with their controls', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'second' })
    const page = await open('/../../settings/keys')
    await page.getByRole('button', { name: 'Create key' }).click()
    const form = page.getByRole('dialog')
    /** What a screen reader says after the name of the control that has the focus. */
    const spoken = () =>
      page.evaluate<string>(
        `(document.activeElement.getAttribute('aria-describedby') ?? '').split(' ')
          .map((id) => document.getElementById(id)?.textContent).join(' ')`,
      )
    await form.getByRole('radio', { name: 'Server' }).focus()
    expect(await spoken()).toMatch(/^Sends events from your servers/)
    await form.getByLabel('Name').fill('Nothing chosen')
    await form.getByRole('radio', { name: 'Something else' }).check()
    for (const box of await form.getByRole('checkbox', { checked: true }).all()) await box.uncheck()
    await form.getByRole('radio', { name: 'All sites' }).check()
    await form.getByRole('button', { name: 'Create key' }).click()
    await waitUntilPasses(async () => expect(await spoken()).toMatch(/Choose at least one scope\.$/))
    await form.getByRole('checkbox').first().check()
    await form.getByRole('radio', { name: 'Only these' }).check()
    await form.getByRole('button', { name: 'Create key' }).click()
    await waitUntilPasses(async () => expect(await spoken()).toBe('Choose at least one site.'))
    await page.goto(`${rig.url}/sites/${siteId}/webhooks`)
    await page.getByRole('button', { name: 'New webhook' }).first().click()
    await form.getByLabel('URL').fill('https://receiver.example')
    for (const box of await form.getByRole('checkbox', { checked: true }).all()) await box.uncheck()
    await form.locator('[type=submit]').click()
    await waitUntilPasses(async () => expect(await spoken()).toMatch(/Choose .*\.$/))
  })

  it('of a key keeps the only limit in sight while it is emptied', async () => {
    const page = await open('/../../settings/keys')
    await page.getByRole('button', { name: 'Create key' }).click()
    const form = page.getByRole('dialog')
    await form.getByRole('radio', { name: 'Browser' }).check()
    const field = form.getByRole('textbox', { name: 'Events per minute and IP address' })
    await field.fill('')
    await page.keyboard.type('60')
    expect(await field.inputValue()).toBe('60')
  })

  it('of a key keeps the focus and the order of the sites while they are ticked, and finds one of many', async () => {
    for (let n = 1; n < 10; n++) await rig.call('POST', '/api/v1/sites', { site_id: `client-${n}` })
    const page = await open('/../../settings/keys')
    await page.getByRole('button', { name: 'Create key' }).click()
    const form = page.getByRole('dialog')
    await form.getByRole('radio', { name: 'Only these' }).check()
    const sites = form.getByRole('group', { name: 'Sites' }).last()
    const order = await sites.locator('label').allTextContents()
    const third = sites.getByRole('checkbox').nth(2)
    await third.focus()
    await page.keyboard.press('Space')
    expect(await sites.locator(':focus').count()).toBe(1)
    expect(await third.isChecked()).toBe(true)
    expect(await sites.locator('label').allTextContents()).toEqual(order)
    await form.getByLabel('Find a site').fill('CLIENT-7')
    await page.keyboard.press('Enter')
    expect(await sites.locator('label').allTextContents()).toEqual(['client-7'])
    expect(await form.getByRole('alert').count()).toBe(0)
    // A problem is told with a box, also where the search finds none.
    await third.waitFor({ state: 'detached' })
    await form.getByLabel('Find a site').fill('')
    await third.uncheck()
    await form.getByLabel('Find a site').fill('no such site')
    await form.getByLabel('Name').fill('of no site')
    await form.getByRole('button', { name: 'Create key' }).click()
    await waitUntilPasses(async () =>
      expect(await sites.getByRole('checkbox').and(page.locator(':focus')).count()).toBe(1),
    )
  })

  it('lists the time zones around the chosen one, and says that typing finds more', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'berlin', timezone: 'Europe/Berlin' })
    const page = await open('/../berlin/settings')
    const field = page.getByLabel('Time zone')
    /** The option that a screen reader says. */
    const active = () =>
      page.evaluate<string | undefined>(
        `document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.textContent`,
      )
    await field.click()
    const chosen = page.getByRole('option', { name: 'Europe/Berlin', exact: true, selected: true })
    await waitUntilPasses(async () => {
      expect(await active()).toBe('Europe/Berlin')
      const [list, option] = [await page.getByRole('listbox').boundingBox(), await chosen.boundingBox()]
      expect(option?.y).toBeGreaterThanOrEqual(list?.y ?? Infinity)
      expect((option?.y ?? Infinity) + (option?.height ?? 0)).toBeLessThanOrEqual((list?.y ?? 0) + (list?.height ?? 0))
    })
    expect(await page.getByRole('option').last().textContent()).toBe('Type to find more')
    const after = await chosen.locator('xpath=following-sibling::li[1]').textContent()
    await page.keyboard.press('ArrowDown')
    await waitUntilPasses(async () => expect(await active()).toBe(after))
    await page.keyboard.press('Enter')
    expect(await field.inputValue()).toBe(after)
  })

  it('keeps all changes of a program that fills in several fields at once', async () => {
    const page = await open('/alerts?open=new')
    const name = page.getByLabel('Name', { exact: true })
    await name.waitFor()
    await page.evaluate(`for (const [label, text] of [['Name', 'Orders'], ['Channel', '#ops']]) {
      const { htmlFor } = [...document.querySelectorAll('label')].find((each) => each.textContent.startsWith(label))
      const field = document.getElementById(htmlFor)
      field.value = text
      field.dispatchEvent(new Event('input', { bubbles: true }))
    }`)
    await waitUntilPasses(async () => {
      expect(await page.getByLabel(/^Channel/).inputValue()).toBe('#ops')
      expect(await name.inputValue()).toBe('Orders')
    })
  })

  it('keeps all changes of a program that ticks several boxes at once', async () => {
    const page = await open('/webhooks')
    await page.getByRole('button', { name: 'New webhook' }).first().click()
    const boxes = page.getByRole('dialog').getByRole('checkbox')
    await boxes.first().waitFor()
    await page.evaluate(
      `document.querySelectorAll('dialog [type="checkbox"]:not(:checked)').forEach((box) => box.click())`,
    )
    await waitUntilPasses(async () => {
      expect(await boxes.count()).toBe(await page.getByRole('dialog').getByRole('checkbox', { checked: true }).count())
    })
  })
})
