import { execFile } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page, Response, Route } from 'playwright-core'
import { startStopwatch } from '../support/stopwatch.ts'
import { headline } from './support/numbers.ts'
import { openSession, type Rig, signIn, startRig } from './support/rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

describeWithChromium('the first minute', () => {
  const visitors = useBrowser()
  let rig: Rig
  let link: string

  beforeAll(async () => {
    rig = await startRig()
    // The link is printed after the line that says that Sluice is ready.
    await waitUntilPasses(() => {
      link = /http:\/\/localhost:\d+\/#code=\S+/.exec(rig.sluice.output())?.[0] ?? ''
      expect(link).not.toBe('')
    })
  })
  afterAll(() => rig.stop())

  it('leads from the printed link to the first event within 60 s', async () => {
    const elapsedMs = startStopwatch()
    const { page, expectMessages } = await visitors.open({ timezoneId: 'Europe/Berlin' })
    // The second try finds the site that the first one has made.
    expectMessages(/status of (503|409)/)
    await page.route('**/api/v1/settings/keys', (route) =>
      route.fulfill({ status: 503, json: { success: false, error: 'Busy', timestamp: Date.now() } }),
    )
    await page.goto(link)
    await page.getByLabel('Name your site').fill('my-site')
    expect(page.url()).not.toContain('code=')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('Busy', { exact: true }).waitFor()
    await page.unroute('**/api/v1/settings/keys')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('Waiting for the first event').waitFor()
    await page.getByRole('button', { name: 'Send one from here' }).click()
    await page.getByText(/visible \d+(\.\d+)? s after receipt/i).waitFor()
    await page.getByRole('button', { name: 'Open overview' }).click()
    await waitUntilPasses(async () => {
      expect(await headline(page, 'Events')).toBe(1)
      expect(await headline(page, 'Visitors')).toBe(1)
    })
    expect(elapsedMs()).toBeLessThan(60_000)
    expect(await rig.call('GET', '/api/v1/sites/my-site')).toMatchObject({ timezone: 'Europe/Berlin' })
    await page.goBack()
    await page.goBack()
    expect(page.url()).not.toContain('code=')
  })

  it('goes on with the first site where the service does not know the time zone of the browser', async () => {
    const { page, context, expectMessages } = await visitors.open()
    expectMessages(/status of 400/)
    await openSession(page, rig.url, rig.admin)
    await context.addInitScript({
      content: `const { resolvedOptions } = Intl.DateTimeFormat.prototype
        Intl.DateTimeFormat.prototype.resolvedOptions = function () {
          return { ...resolvedOptions.call(this), timeZone: 'Etc/Unknown' }
        }`,
    })
    await page.route('**/api/v1/sites?*', (route) =>
      route.fulfill({ json: { success: true, data: { sites: [], total: 0 }, timestamp: Date.now() } }),
    )
    await page.goto(rig.url)
    await page.getByLabel('Name your site').fill('unknown-zone')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('Waiting for the first event').waitFor()
    expect(await rig.call('GET', '/api/v1/sites/unknown-zone')).toMatchObject({ timezone: 'UTC' })
  })

  it('goes on to the overview when the first event is of a day long ago', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'history' })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.clock.install()
    await page.goto(`${rig.url}/sites/history`)
    await page.getByText('Waiting for the first event').waitFor()
    await rig.send([{ site_id: 'history', event_type: 'page_view', timestamp: Date.UTC(2026, 0, 1), event_id: 'old' }])
    // The record of the site is refetched each minute.
    await page.clock.runFor(61_000)
    await page.getByText('The last event was on 1 Jan 2026.').waitFor()
  })

  it('asks often for the last events of other sites only where these are few, and names one that got an event', async () => {
    for (const site_id of ['awaited', 'mistaken']) await rig.call('POST', '/api/v1/sites', { site_id })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    let [asked, total] = [0, 800]
    const live = () => page.waitForResponse((response) => new URL(response.url()).pathname === '/api/v1/live')
    await page.route('**/api/v1/sites?*', async (route) => {
      asked++
      const response = await route.fetch()
      const answer = (await response.json()) as { data: object }
      await route.fulfill({ response, json: { ...answer, data: { ...answer.data, total } } })
    })
    await page.clock.install()
    await page.goto(`${rig.url}/sites/awaited`)
    await page.getByText('Waiting for the first event').waitFor()
    await page.getByRole('button', { name: 'Switch site: awaited' }).waitFor()
    // The page's time also goes on by itself.
    for (let seconds = 3; seconds <= 15; seconds += 3) await Promise.all([live(), page.clock.runFor(3_000)])
    expect(asked).toBe(1)
    total = 50
    await page.clock.runFor(6_000)
    await waitUntilPasses(() => expect(asked).toBe(2))
    await rig.send([{ site_id: 'mistaken', event_type: 'page_view', timestamp: Date.now(), event_id: 'mistaken' }])
    await waitUntilPasses(async () => {
      await page.clock.runFor(3_000)
      expect(await page.getByRole('link', { name: 'Open mistaken' }).count()).toBe(1)
    })
  })

  it('asks about types and properties that only events of more than 30 days ago have', async () => {
    const old = ['viewed', 'bought'].map((event_type, n) => ({
      site_id: 'archive',
      event_type,
      timestamp: Date.UTC(2026, 0, 1) + n,
      event_id: event_type,
      session_id: 'old',
      properties: { plan: 'pro' },
    }))
    await rig.send(old)
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/archive/funnels?range=all`)
    await page.getByLabel('Event of step 1').fill('viewed', { timeout: 20_000 })
    await page.getByLabel('Event of step 2').fill('bought')
    await page.getByText('did all 2 steps').waitFor()
    await page.goto(`${rig.url}/sites/archive?range=all`)
    const panel = page.getByRole('region', { name: 'Properties', exact: true })
    await panel.getByText(/^No properties in the last 30 days/).waitFor()
    await panel.getByLabel('Property of the panel').fill('plan')
    await page.keyboard.press('Enter')
    await panel.getByRole('button', { name: /^pro/ }).waitFor()
    await panel.locator('input:focus').waitFor()
  })

  it('says of a link that was used what to do instead', async () => {
    const { page } = await visitors.open()
    await page.goto(link)
    await page
      .getByRole('alert')
      .getByText(/used already/)
      .waitFor()
    await page.getByText('npm run admin-key').waitFor()
    await signInHere(page, rig.admin)
  })

  it('signs in by a link that is opened where the sign-in page is shown, and keeps no secret in the address', async () => {
    const { page } = await visitors.open()
    await page.goto(`${rig.url}/`)
    await page.getByLabel('API key').waitFor()
    await page.evaluate(`location.hash = 'key=${rig.admin}'`)
    await page.getByRole('link', { name: 'API Keys' }).waitFor()
    expect(page.url()).not.toContain('svc_')
  })

  it.each(['guess', 'guess'.repeat(8).slice(0, 32)])('says of the guessed code %s what to do instead', async (code) => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/status of 400/)
    await page.goto(`${rig.url}/#code=${code}`)
    await page
      .getByRole('alert')
      .getByText(/used already/)
      .waitFor()
    expect(page.url()).not.toContain('guess')
    await signInHere(page, rig.admin)
  })

  it('asks somebody who is signed in whether to stay or to switch, and does either', async () => {
    const other = await rig.createKey({ name: 'the other', scopes: ['stats:read'] })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const nameOfSession = async () => {
      const answer = await page.request.get(`${rig.url}/api/v1/session`)
      return ((await answer.json()) as { data: { name: string } }).data.name
    }
    const before = await nameOfSession()
    for (const [button, expected] of [
      ['Stay', before],
      ['Switch', 'the other'],
    ] as const) {
      await page.goto('about:blank')
      await page.goto(`${rig.url}/#key=${other.key}`)
      await page.getByRole('button', { name: button }).click()
      await page.getByRole('navigation', { name: 'Main' }).waitFor()
      expect(page.url()).not.toContain('svc_')
      expect(await nameOfSession()).toBe(expected)
    }
  })

  it('switches once, also by a double click', async () => {
    const other = await rig.createKey({ name: 'once', scopes: ['stats:read'] })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const held = Promise.withResolvers<undefined>()
    let sent = 0
    await page.route('**/api/v1/session', async (route) => {
      if (route.request().method() === 'POST') {
        sent++
        await held.promise
      }
      await route.fallback()
    })
    await page.goto(`${rig.url}/#key=${other.key}`)
    const question = page.getByRole('dialog')
    await question.getByRole('button', { name: 'Switch' }).dblclick()
    expect(await question.getByRole('button', { name: 'Stay' }).isEnabled()).toBe(false)
    held.resolve(undefined)
    await page.getByRole('navigation', { name: 'Main' }).waitFor()
    expect(sent).toBe(1)
  })

  it('asks whether to stay or to switch once it is known who is signed in, and not before', async () => {
    const other = await rig.createKey({ name: 'stranger', scopes: ['stats:read'] })
    const { page, expectMessages } = await visitors.open()
    expectMessages(/status of 503|ERR_FAILED/)
    await openSession(page, rig.url, rig.admin)
    const methods: string[] = []
    const failures = [
      (route: Route) =>
        route.fulfill({
          status: 503,
          headers: { 'Retry-After': '600' },
          json: { success: false, error: 'Busy', timestamp: Date.now() },
        }),
      (route: Route) => route.abort(),
    ]
    await page.route('**/api/v1/session', async (route) => {
      methods.push(route.request().method())
      await (failures.shift() ?? ((each: Route) => each.fallback()))(route)
    })
    await page.goto(`${rig.url}/#key=${other.key}`)
    await page.getByText('Busy', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Retry' }).click()
    await page.getByText(/^Sluice can’t be reached/).waitFor()
    // After a lost connection it is asked again by itself.
    await page.getByRole('dialog', { name: 'Stay or switch?' }).getByRole('button', { name: 'Stay' }).waitFor()
    expect(methods).toEqual(['GET', 'GET', 'GET'])
  })

  it('keeps the address through the sign-in page, and refuses a wrong key with a sentence', async () => {
    const { page } = await visitors.open()
    await page.goto(`${rig.url}/sites/my-site/live?env=prod`)
    const mistyped = rig.admin.replace(/.$/, (last) => (last === 'x' ? 'y' : 'x'))
    await page.getByLabel('API key').fill(mistyped)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').waitFor()
    await signInHere(page, rig.admin)
    await page.waitForURL(`${rig.url}/sites/my-site/live?env=prod`)
  })

  /** A page whose session has ended. */
  async function openEnded() {
    const { page, context } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/settings/session`)
    await page.getByText(/^key_/).waitFor()
    await context.clearCookies()
    await page.getByRole('alert').getByText('Your session has ended').waitFor()
    return { page, context }
  }

  it.each([
    // All pages of a browser without windows count as visible.
    ['its tab is shown', `document.dispatchEvent(new Event('visibilitychange'))`],
    ['its window gets the focus', `dispatchEvent(new Event('focus'))`],
  ])('goes on where the session ended once another tab has signed in and %s', async (_, event) => {
    const { page, context } = await openEnded()
    const other = await context.newPage()
    await signIn(other, rig.url, rig.admin)
    await page.evaluate(event)
    await page.getByText(/^key_/).waitFor()
    expect(page.url()).toBe(`${rig.url}/settings/session`)
  })

  it('shows nothing of the key before once another tab has replaced the session', async () => {
    for (const id of ['before', 'after']) await rig.call('POST', '/api/v1/sites', { site_id: id })
    const other = await rig.createKey({ name: 'bound', scopes: ['stats:read'], site_ids: ['after'] })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url)
    const row = (id: string) => page.getByRole('row').filter({ hasText: id })
    await row('before').waitFor()
    await openSession(page, rig.url, other.key)
    // A key that is not an admin's may add no site.
    await page.getByRole('button', { name: 'Add a site' }).waitFor({ state: 'detached' })
    expect(await row('before').count()).toBe(0)
    await row('after').waitFor()
    expect(await row('before').count()).toBe(0)
  })

  it('keeps a new secret until it is saved, also once another tab has replaced the session', async () => {
    const other = await rig.createKey({ name: 'of a colleague', scopes: ['admin'] })
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/settings/keys`)
    await page.getByRole('button', { name: 'Create key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('shown once')
    await dialog.getByRole('button', { name: /^Create/ }).click()
    const saved = page.getByRole('button', { name: 'I have saved it' })
    await saved.waitFor()
    await openSession(page, rig.url, other.key)
    for (let checks = 0; checks < 3; checks++) await page.waitForResponse(/\/api\/v1\/session$/)
    expect(await saved.isVisible()).toBe(true)
    await saved.click()
    await saved.waitFor({ state: 'detached' })
  })

  it('stays signed in when a check for the session of another tab is answered late', async () => {
    const { page } = await openEnded()
    const checks: Route[] = []
    const isSessionUrl = ({ pathname }: URL) => pathname === '/api/v1/session'
    await page.route(isSessionUrl, async (route) => {
      if (checks.length > 0) return route.fallback()
      checks.push(route)
    })
    await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)
    await waitUntilPasses(() => expect(checks).toHaveLength(1))
    await signInHere(page, rig.admin)
    await page.getByText(/^key_/).waitFor()
    // The page may have given the request up.
    await checks[0]
      ?.fulfill({ status: 401, json: { success: false, timestamp: Date.now(), error: 'Not signed in' } })
      .catch(() => undefined)
    const isSession = (response: Response) => isSessionUrl(new URL(response.url())) && response.status() === 200
    await page.waitForResponse(isSession)
    expect(await page.getByLabel('API key').count()).toBe(0)
    await page.getByText(/^key_/).waitFor()
  })

  it('ends the session by "Sign out"', async () => {
    const { page, context } = await visitors.open()
    await signIn(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/settings/session`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').waitFor()
    expect(await context.cookies()).toEqual([])
  })

  const site = async (page: Page, name: string): Promise<void> => {
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url)
    await page.goto(`${rig.url}/sites/${name}`)
    await page.getByText('Waiting for the first event').waitFor()
  }

  it('says where an event of another environment arrived', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'tried-out' })
    const { key } = await rig.createKey({ name: 'dev', environment: 'dev', scopes: ['events:write'] })
    const { page } = await visitors.open()
    await site(page, 'tried-out')
    await rig.call('POST', '/collect', { site_id: 'tried-out', event_type: 'page_view' }, key)
    await page.getByText('It arrived in dev').waitFor()
    await page.getByText('Show dev').click()
    await waitUntilPasses(() => expect(page.url()).toContain('env=dev'))
  })

  it('leads from pages without an event to the one of another environment', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'elsewhere' })
    const { key } = await rig.createKey({ name: 'dev', environment: 'dev', scopes: ['events:write', 'stats:read'] })
    await rig.send(
      [{ site_id: 'elsewhere', event_type: 'tried', event_id: 'tried', session_id: 'first', timestamp: Date.now() }],
      key,
    )
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/elsewhere/live`)
    await page.getByText(/^The last event was .*, in another environment\.$/).waitFor()
    await page.getByRole('button', { name: 'Show all environments' }).click()
    await page.getByRole('main').getByText('tried').first().waitFor()
    await page.goto(`${rig.url}/sites/elsewhere/events`)
    await page.getByRole('button', { name: 'Show all time' }).click()
    await page.getByRole('button', { name: 'Show all environments' }).click()
    await page.getByRole('main').getByText('tried').first().waitFor()
    await page.goto(`${rig.url}/sites/elsewhere/funnels?steps=tried%3Ebought&range=all`)
    await page.getByRole('button', { name: 'Show all environments' }).click()
    await page.getByText('did all 2 steps').waitFor()
  })

  it.each(['curl', 'Node'] as const)('has a snippet for %s that works as it is', async (tab) => {
    const siteId = `snippet-${tab.toLowerCase()}`
    const { page } = await visitors.open()
    const code = await snippetOf(page, siteId, tab)
    const [program, ...options] = tab === 'curl' ? ['bash', '-c'] : [process.execPath, '--input-type=module', '-e']
    await promisify(execFile)(program, [...options, code])
    await page.getByText(/visible \d+(\.\d+)? s after receipt/i).waitFor()
    expect(await countOf(siteId, 'visitors')).toBe(1)
  })

  it('has a snippet for browsers that works on a page of another origin', async () => {
    const { page, context } = await visitors.open()
    const code = await snippetOf(page, 'snippet-browser', 'Browser')
    const other = await serve(
      `<!doctype html><title>A shop</title><body>${code.includes('<script') ? code : `<script type="module">${code}</script>`}`,
    )
    try {
      const shop = await context.newPage()
      await shop.goto(`http://localhost:${(other.address() as AddressInfo).port}/`)
      await page.getByText(/visible \d+(\.\d+)? s after receipt/i).waitFor()
      await shop.reload()
      await waitUntilPasses(async () => expect(await countOf('snippet-browser', 'event_count')).toBe(2))
      expect(await countOf('snippet-browser', 'visitors')).toBe(1)
    } finally {
      other.close()
      other.closeAllConnections()
    }
  })

  it('has the snippets under Settings after the first event, too, without a key', async () => {
    await rig.send([{ site_id: 'settled', event_type: 'page_view', timestamp: Date.now(), event_id: 'settled' }])
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/settled/settings`)
    await page.getByRole('tab', { name: 'Browser' }).click()
    const snippet = page.getByRole('tabpanel').getByRole('group', { name: 'Snippet for Browser' })
    expect(await snippet.textContent()).toMatch(/data-site="settled"\s+data-key="<your key>"/)
  })

  const countOf = async (siteId: string, metric: string): Promise<number> =>
    (await rig.call<{ value: number }>('GET', `/api/v1/stats?site_id=${siteId}&metric=${metric}&period=1h`)).value

  /** Names a site on the first page and copies the snippet of a tab. */
  async function snippetOf(page: Page, siteId: string, tab: string): Promise<string> {
    await rig.call('POST', '/api/v1/sites', { site_id: siteId })
    await site(page, siteId)
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByRole('tab', { name: tab }).click()
    // The key is in the snippet when it has been made.
    await page
      .getByRole('tabpanel')
      .getByText(/svc_prod_\w{34}/)
      .first()
      .waitFor()
    await page.evaluate(`navigator.clipboard.writeText('')`)
    await page.getByRole('tabpanel').getByRole('button', { name: 'Copy' }).click()
    const clipboard = () => page.evaluate<string>('navigator.clipboard.readText()')
    await waitUntilPasses(async () => expect(await clipboard()).not.toBe(''))
    return clipboard()
  }
})

async function signInHere(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation', { name: 'Main' }).waitFor()
}

async function serve(html: string): Promise<Server> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(html)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}
