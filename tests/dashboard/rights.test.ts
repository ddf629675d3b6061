import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { startStopwatch } from '../support/stopwatch.ts'
import { headline } from './support/numbers.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { routesOf } from './support/routes.ts'
import { seededEvents, type SentEvent } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

interface KeyRecord {
  key_id: string
  name: string
  scopes: string[]
  site_ids: string[] | null
  expires_at: number | null
  rate_limits: object | null
  revoked_at: number | null
}

describeWithChromium('keys', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.send(seededEvents({ siteId, now: Date.now(), sessions: 150 }))
  })
  afterAll(() => rig.stop())

  const open = async (path: string, key = rig.admin): Promise<Page> => {
    const { page, expectMessages } = await visitors.open()
    // A revoked key's questions get 401, and the browser reports what a form is refused, and that the site was asked
    // for before the rights were known.
    expectMessages(/status of (401|400.*\/keys|409.*\/sites|403.*\/sites\/kolkata$)/)
    await openSession(page, rig.url, key)
    await page.goto(rig.url + path)
    return page
  }

  const keys = async (): Promise<KeyRecord[]> =>
    (await rig.call<{ keys: KeyRecord[] }>('GET', '/api/v1/settings/keys?limit=1000')).keys

  const isAccepted = async (key: string): Promise<boolean> => {
    const response = await fetch(`${rig.url}/api/v1/session`, { headers: { Authorization: `Bearer ${key}` } })
    return response.ok
  }

  it('with stats:read alone show what they may read, and name the scope of what they may not', async () => {
    const { key } = await rig.createKey({ name: 'reader', scopes: ['stats:read'] })
    const page = await open(`/sites/${siteId}`, key)
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBeGreaterThan(0))
    await page.getByRole('radiogroup').getByRole('button', { name: 'More', exact: true }).first().click()
    await page.getByRole('button', { name: 'Copy curl', exact: true }).waitFor()
    expect(await page.getByRole('link', { name: 'Alert on this' }).count()).toBe(0)
    const navigation = page.getByRole('navigation', { name: 'Main' })
    await navigation
      .getByText(/API Keys/)
      .first()
      .waitFor()
    const locked = navigation.getByTitle('needs a key with the scope admin')
    expect(await locked.allInnerTexts()).toEqual(['Webhooks', 'Alerts', 'API Keys'])
    for (const [name, scope] of [
      ['API Keys', 'admin'],
      ['Webhooks', 'admin'],
      ['Alerts', 'admin'],
      ['Imports', 'events:write'],
      ['Cohorts', 'cohorts:read'],
    ] as const) {
      await page.goto(rig.url + routesOf(siteId)[name])
      await page.getByRole('heading', { level: 1, name: `This needs the scope ${scope}` }).waitFor()
      await page.getByText('reader').first().waitFor()
    }
    for (const name of ['Live', 'Events', 'Funnels', 'Retention'] as const) {
      await page.goto(rig.url + routesOf(siteId)[name])
      await page.getByRole('heading', { level: 1 }).waitFor()
      expect(await page.getByText('This needs the scope').count()).toBe(0)
      expect(await page.title()).toBe(`${name} · ${siteId} · Sluice`)
    }
  })

  it.each([`/sites/${siteId}?range=7d&f=country:equals:DE`, `/sites/${siteId}/live`, '/settings/keys'])(
    'that are revoked are at the sign-in page within 5 s, and come back to %s',
    async (path) => {
      const { key, key_id } = await rig.createKey({ name: 'short-lived', scopes: ['admin'] })
      const page = await open(path, key)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await rig.call('DELETE', `/api/v1/settings/keys/${key_id}`)
      const elapsedMs = startStopwatch()
      await page.getByLabel('API key').waitFor()
      expect(elapsedMs()).toBeLessThan(5_000)
      await page.getByLabel('API key').fill(rig.admin)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('navigation', { name: 'Main' }).waitFor()
      expect(page.url()).toBe(rig.url + path)
    },
  )

  it('are revealed once: not Escape but "I have saved it" closes the dialog, also while the list changes', async () => {
    const page = await open('/settings/keys')
    await page.getByRole('button', { name: 'Create key' }).click()
    const form = page.getByRole('dialog')
    await form.getByLabel('Name').fill('Web shop')
    await form.getByRole('button', { name: /^Create/ }).click()
    const reveal = page.getByRole('dialog').filter({ has: page.getByRole('button', { name: 'I have saved it' }) })
    await reveal.getByText(/svc_prod_\w{34}/).waitFor()
    const key = /svc_prod_\w{34}/.exec((await reveal.textContent()) ?? '')?.[0] ?? ''
    expect(await isAccepted(key)).toBe(true)
    await rig.createKey({ name: 'made meanwhile' })
    await page.keyboard.press('Escape')
    await page.evaluate(
      `window.dispatchEvent(new Event('focus')), document.dispatchEvent(new Event('visibilitychange'))`,
    )
    // The page asks for its session every 2.5 s: by then it has rendered whatever the list has become.
    await page.waitForResponse(/\/api\/v1\/session$/)
    expect(await reveal.textContent()).toContain(key)
    // Nobody would have the key if the page were left now.
    const asked = page.waitForEvent('dialog')
    const reloading = page.evaluate('location.reload()')
    const question = await asked
    expect(question.type()).toBe('beforeunload')
    await question.dismiss()
    await reloading
    expect(await reveal.textContent()).toContain(key)
    await reveal.getByRole('button', { name: 'I have saved it' }).click()
    await page.getByRole('row').filter({ hasText: 'Web shop' }).waitFor()
    await waitUntilPasses(async () => expect(await page.locator('body').innerText()).not.toContain(key))
    await page.getByRole('row').filter({ hasText: 'made meanwhile' }).waitFor()
  })

  it('that read are revealed with a link that signs in', async () => {
    const page = await open('/settings/keys')
    await page.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('For the team')
    await page.getByRole('radio', { name: 'Dashboard' }).check()
    await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('button', { name: 'Copy sign-in link' }).click({ timeout: 20_000 })
    await page.locator('.toast', { hasText: 'Link copied' }).waitFor()
    const link = await page.evaluate<string>('navigator.clipboard.readText()')
    await page.getByRole('button', { name: 'I have saved it' }).click()
    const guest = await visitors.open()
    await guest.page.goto(link)
    await guest.page.getByRole('navigation', { name: 'Main' }).waitFor()
    const session = await guest.page.request.get(`${rig.url}/api/v1/session`)
    expect(await session.json()).toMatchObject({ data: { name: 'For the team' } })
  })

  it('have limits of their own, and mistakes of the form are said at their fields', async () => {
    const page = await open('/settings/keys')
    await page.getByRole('button', { name: 'Create key' }).click()
    const form = page.getByRole('dialog')
    const field = (name: string) => form.getByRole('textbox', { name })
    const expectProblem = (name: string, problem: RegExp) =>
      waitUntilPasses(async () => {
        const ids = (await field(name).getAttribute('aria-describedby'))?.split(' ') ?? []
        const id = ids.find((each) => each.endsWith('-error'))
        expect(id && (await form.locator(`[id="${id}"]`).innerText())).toMatch(problem)
      })
    await field('Name').fill('x'.repeat(129))
    await form.getByRole('button', { name: 'Create key' }).click()
    await expectProblem('Name', /^Exceeds maximum length of 128$/)
    await field('Name').fill('limited')
    await form.getByRole('radio', { name: 'Browser' }).check()
    await field('Allowed origins').fill('https://shop.example/path')
    await field('Events per minute and IP address').fill('1.5')
    await form.getByRole('button', { name: 'Create key' }).click()
    await expectProblem('Allowed origins', /^“https:\/\/shop.example\/path” is not an origin/)
    await expectProblem('Events per minute and IP address', /^Enter a whole number from 1 to 10,000,000/)
    await field('Allowed origins').fill('https://Shop.example/')
    await field('Events per minute and IP address').fill('60')
    await form.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('button', { name: 'I have saved it' }).click()
    const made = (await keys()).find(({ name }) => name === 'limited')
    expect(made).toMatchObject({
      allowed_origins: ['https://shop.example'],
      rate_limits: { events_per_minute_per_address: 60 },
    })

    await page.getByText('limited').first().click()
    await page.getByRole('dialog').getByText('Events per minute and IP address: 60').waitFor()
    await page.getByRole('button', { name: 'Edit' }).click()
    await field('Events per minute and IP address').fill('')
    await page.getByRole('button', { name: 'Save' }).click()
    await waitUntilPasses(async () => {
      expect((await keys()).find(({ name }) => name === 'limited')).toMatchObject({ rate_limits: null })
    })
  })

  it('of an admin rename a key, and change nothing that somebody else has changed while the form was open', async () => {
    const { key_id: id } = await rig.call<{ key_id: string }>('POST', '/api/v1/settings/keys', {
      name: 'to rename',
      scopes: ['stats:read'],
    })
    const path = `/api/v1/settings/keys/${id}`
    const page = await open('/settings/keys')
    await page.getByText('to rename').first().click()
    await page.getByRole('button', { name: 'Edit' }).click()
    const expiresAt = Date.now() + 86_400_000
    await rig.call('PUT', path, { expires_at: expiresAt, scopes: ['stats:read', 'events:write'] })
    await page.getByRole('dialog').getByRole('textbox', { name: 'Name' }).fill('renamed')
    await page.getByRole('button', { name: 'Save' }).click()
    await waitUntilPasses(async () => {
      expect((await keys()).find(({ name }) => name === 'renamed')).toMatchObject({
        expires_at: expiresAt,
        scopes: expect.arrayContaining(['stats:read', 'events:write']),
      })
    })
  })

  it('of an admin add a site, unless its id exists, which is said at the field', async () => {
    const page = await open('/')
    await page.getByRole('button', { name: 'Add a site' }).click()
    const form = page.getByRole('dialog')
    const id = form.getByRole('textbox', { name: 'Site ID' })
    await id.fill(siteId)
    await form.getByRole('button', { name: 'Add a site' }).click()
    await form.getByText(`A site “${siteId}” already exists. Choose another ID.`).waitFor()
    expect(await id.getAttribute('aria-invalid')).toBe('true')
    await id.fill('second')
    await form.getByRole('button', { name: 'Add a site' }).click()
    await page.waitForURL(/\/sites\/second$/)
  })

  it('without cohorts:write open no form that they could not save, although the address asks for it', async () => {
    const { key } = await rig.createKey({ name: 'reads cohorts', scopes: ['stats:read', 'cohorts:read'] })
    const page = await open(`/sites/${siteId}/cohorts?edit=new&name=Buyers`, key)
    await page.getByText('Making and changing cohorts needs a key with the scope cohorts:write.').waitFor()
    expect(await page.getByRole('button', { name: 'Save cohort' }).count()).toBe(0)
    expect(await page.getByRole('main').getByRole('alert').count()).toBe(0)
  })

  it('find no record of another site by its id in the address, and say so', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'other' })
    const of = { site_id: 'other' }
    const { export_id } = await rig.call<{ export_id: string }>('POST', '/api/v1/exports', {
      ...of,
      type: 'events',
      format: 'csv',
      name: 'Of the other site',
    })
    const { webhook_id } = await rig.call<{ webhook_id: string }>('POST', '/api/v1/webhooks', {
      ...of,
      url: 'http://127.0.0.1:9/',
      events: ['alert'],
    })
    const { rule_id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      ...of,
      name: 'Of the other site',
      condition: { metric: 'visitors', operator: 'less_than', threshold: 5, window: '1h' },
      notification_type: 'slack',
      notification_config: { url: 'http://127.0.0.1:9/' },
    })
    const page = await open(`/sites/${siteId}/alerts?open=${rule_id}`)
    await page.getByText('There is no such alert').waitFor()
    for (const [path, id] of [
      [`/sites/${siteId}/exports`, export_id],
      [`/sites/${siteId}/webhooks`, webhook_id],
      ['/settings/keys', 'key_none'],
    ] as const) {
      await page.goto(`${rig.url}${path}?open=${id}`)
      await page.getByText(`There is no “${id}” here.`).waitFor()
      expect(await page.getByText('Of the other site').count()).toBe(0)
    }
  })

  it('open by their id in the address although their page lists newer ones, and are found by name and site', async () => {
    const { key_id: id } = await rig.createKey({ name: 'the oldest', scopes: ['stats:read'] })
    const offsets: (string | null)[] = []
    let one: KeyRecord | undefined
    const page = await open('/settings/session')
    await page.route('**/api/v1/settings/keys?*', async (route) => {
      const offset = new URL(route.request().url()).searchParams.get('offset')
      offsets.push(offset)
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { keys: KeyRecord[] } }
      one ??= answer.data.keys[0]
      const isSecondPage = offset === '1000'
      const listed = Array.from({ length: isSecondPage ? 1 : 12 }, (_, n) => ({
        ...one,
        key_id: `key_${n}`,
        name: `key of client ${n}`,
        site_ids: [`client-${n}`],
        ...(isSecondPage && { revoked_at: 1 }),
      }))
      await route.fulfill({ response, json: { ...answer, data: { keys: listed, total: 1_200 } } })
    })
    await page.goto(`${rig.url}/settings/keys?open=${id}`)
    const drawer = page.getByRole('dialog', { name: 'the oldest' })
    await drawer.getByText(id, { exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await drawer.waitFor({ state: 'detached' })
    await page.getByLabel('Find a key').fill('CLIENT-7')
    await waitUntilPasses(async () => expect(await page.getByRole('row').count()).toBe(2))
    await page.getByRole('row').filter({ hasText: 'key of client 7' }).waitFor()
    await page.getByRole('button', { name: 'Older' }).click()
    await waitUntilPasses(() => expect(offsets).toContain('1000'))
    await page.waitForURL((url) => url.searchParams.get('offset') === '1000')
    // The search of the page before can be removed where the list is short, and it says that it is of this page.
    await page.getByText('No key on this page has “CLIENT-7” in its name').waitFor()
    await page.getByLabel('Find a key').fill('')
    await page.getByRole('checkbox', { name: /^Hide 1\skey/ }).check()
    await page.getByText('The keys on this page no longer work').waitFor()
  })

  it.each([
    ['webhooks', `/sites/${siteId}/webhooks`, '/api/v1/webhooks', 'No webhooks yet'],
    ['API keys', '/settings/keys', '/api/v1/settings/keys', 'Last used'],
  ])('call no record unknown by a list of %s from before it was made', async (_, path, listPath, listed) => {
    const page = await open(path)
    await page.getByRole('main').getByText(listed).first().waitFor()
    const go = (to: string) =>
      page.evaluate(`history.pushState(null, '', ${JSON.stringify(to)}), dispatchEvent(new PopStateEvent('popstate'))`)
    await go('/settings/session')
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    const id =
      listPath === '/api/v1/webhooks'
        ? (
            await rig.call<{ webhook_id: string }>('POST', listPath, {
              site_id: siteId,
              url: 'http://127.0.0.1:9/later',
              events: ['alert'],
            })
          ).webhook_id
        : (await rig.createKey({ name: 'later', scopes: ['stats:read'] })).key_id
    const held = Promise.withResolvers<undefined>()
    await page.route(`**${listPath}?*`, async (route) => {
      await held.promise
      await route.fallback()
    })
    await go(`${path}?open=${id}`)
    await page.getByRole('main').getByText(listed).first().waitFor()
    expect(await page.getByText(/^There is no “/).count()).toBe(0)
    held.resolve(undefined)
    await page.getByRole('dialog').getByText('later').first().waitFor()
    expect(await page.getByText(/^There is no “/).count()).toBe(0)
  })

  it('of an admin that are bound to sites do not offer to add another', async () => {
    const { key } = await rig.createKey({ name: 'bound', scopes: ['admin'], site_ids: [siteId] })
    const page = await open('/', key)
    await page.getByRole('table', { name: 'Sites' }).waitFor()
    expect(await page.getByRole('button', { name: 'Add a site' }).count()).toBe(0)
  })

  it('with cohorts:read alone show the retention of the weeks of the site’s time zone, which they can’t read', async () => {
    const { key } = await rig.createKey({ name: 'cohorts', scopes: ['cohorts:read'] })
    await rig.call('POST', '/api/v1/sites', { site_id: 'kolkata', timezone: 'Asia/Kolkata' })
    const [visit] = seededEvents({ siteId: 'kolkata', now: Date.now(), sessions: 1 })
    await rig.send([{ ...visit, user_id: 'one' } as SentEvent])
    const page = await open('/sites/kolkata/retention', key)
    await page.getByText('Weeks begin on Monday, in the time zone Asia/Kolkata.').waitFor()
    const zone = page.getByRole('combobox', { name: 'Time zone' })
    expect(await zone.inputValue()).toBe('Time zone of the site')
    await zone.fill('Tokyo')
    await zone.press('Enter')
    await page.getByText('Weeks begin on Monday, in the time zone Asia/Tokyo.').waitFor()
  })

  it('with events:write alone name a site, and reach the pages that they may open', async () => {
    const { key } = await rig.createKey({ name: 'server', scopes: ['events:write'] })
    const page = await open('/', key)
    await page.getByRole('textbox', { name: 'Site ID' }).fill('x'.repeat(65))
    await page.getByRole('button', { name: 'Open', exact: true }).click()
    await page.getByText('Enter an ID of at most 64 characters.').waitFor()
    await page.getByRole('textbox', { name: 'Site ID' }).fill(siteId)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${rig.url}/sites/${siteId}/imports`)
    await page.getByRole('button', { name: 'Import a file' }).first().waitFor()
    // The site is remembered on pages without one.
    await page.goto(`${rig.url}/settings/session`)
    await page.getByRole('link', { name: 'Imports' }).click()
    await page.waitForURL(`${rig.url}/sites/${siteId}/imports`)
  })

  it.each([
    ['events:write', 'imports', 'Imports'],
    ['cohorts:read', 'retention', 'Retention'],
  ])('with %s alone that are bound to two sites reach both', async (scope, path, title) => {
    const { key } = await rig.createKey({ name: 'bound', scopes: [scope], site_ids: [siteId, 'branch'] })
    const page = await open('/', key)
    await page.getByRole('main').getByRole('link', { name: 'branch' }).click()
    await page.waitForURL(`${rig.url}/sites/branch/${path}`)
    await page.getByRole('heading', { level: 1, name: title }).waitFor()
    await page.getByRole('button', { name: /^Switch site/ }).click()
    await page.getByRole('dialog').getByRole('link', { name: siteId }).click()
    await page.waitForURL(`${rig.url}/sites/${siteId}/${path}`)
  })

  it('are rotated with an overlap, and revoked, from the list', async () => {
    const { key, key_id } = await rig.createKey({ name: 'ledger', scopes: ['stats:read'] })
    const page = await open('/settings/keys')
    const row = page.getByRole('row').filter({ hasText: 'ledger' })
    const press = (name: string) => page.getByRole('dialog').last().getByRole('button', { name, exact: true }).click()
    await row.getByText('ledger').first().click()
    await press('Rotate')
    await page.getByLabel('Overlap').waitFor()
    await press('Rotate')
    await press('I have saved it')
    const ledgers = async () => (await keys()).filter(({ name }) => name === 'ledger')
    const old = (await ledgers()).find((each) => each.key_id === key_id)
    expect(await ledgers()).toHaveLength(2)
    expect(old?.expires_at).toBeGreaterThan(Date.now())
    expect(await isAccepted(key)).toBe(true)
    await row.filter({ hasText: /expires in/i }).waitFor()

    await row
      .filter({ hasNotText: /expires in/i })
      .getByText('ledger')
      .first()
      .click()
    await press('Revoke')
    await page.getByText(/refused within two seconds/).waitFor()
    await press('Revoke')
    await row.filter({ hasText: /revoked/i }).waitFor()
    const revoked = (await ledgers()).filter(({ revoked_at }) => revoked_at !== null)
    expect(revoked.map((each) => each.key_id)).not.toContain(key_id)
    expect(revoked).toHaveLength(1)
  })

  it('of the session itself are rotated with an overlap: the new one could not be saved otherwise', async () => {
    const { key } = await rig.createKey({ name: 'own', scopes: ['admin'] })
    const page = await open('/settings/keys', key)
    const row = page.getByRole('row').filter({ hasText: /^own/ })
    await row.getByText('own', { exact: true }).first().click()
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click()
    const dialog = page.getByRole('dialog').last()
    await dialog.getByText(/until you have saved the new one/).waitFor()
    expect(await dialog.getByLabel('Overlap').locator('option').allTextContents()).toEqual([
      '1 hour',
      '1 day',
      '7 days',
      '30 days',
    ])
  })

  it('of a guest link read one site, and end with the link', async () => {
    const page = await open('/settings/keys')
    await page.getByRole('row').nth(1).waitFor()
    // The page holds the list of keys, and goes on without being loaded anew.
    await page.evaluate(
      `history.pushState(null, '', '/sites/${siteId}?range=7d'), dispatchEvent(new Event('popstate'))`,
    )
    await page.getByRole('button', { name: 'Share' }).click()
    await page.getByRole('button', { name: /guest/i }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: /^Create/ }).click()
    await dialog.getByText(/#key=svc_/).waitFor()
    const link = /http\S+#key=svc_(?:prod|dev)_\w{33,34}/.exec((await dialog.textContent()) ?? '')?.[0] ?? ''
    const made = (await keys()).find(({ site_ids }) => site_ids?.length === 1 && site_ids[0] === siteId)
    expect(made).toMatchObject({
      scopes: ['stats:read'],
      site_ids: [siteId],
      rate_limits: { queries_per_minute: 10_000 },
    })
    expect(made?.expires_at).toBeGreaterThan(Date.now())
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
    await page.mouse.click(5, 5)
    await dialog.getByRole('button', { name: 'I have saved it' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'API Keys' }).click()
    await page
      .getByRole('row')
      .filter({ hasText: `Guest link of ${siteId}` })
      .waitFor()

    const { page: guest, expectMessages } = await visitors.open()
    expectMessages(/status of 401/)
    await guest.goto(link)
    await waitUntilPasses(async () => expect(await headline(guest, 'Events')).toBeGreaterThan(0))
    expect(guest.url()).not.toContain('svc_')
    expect(new URL(guest.url()).searchParams.get('range')).toBe('7d')
    await rig.call('PUT', `/api/v1/settings/keys/${made?.key_id ?? ''}`, { expires_at: Date.now() + 10_000 })
    await guest.getByLabel('API key').waitFor()
  })
})
