import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { watermarkStore } from '@sluice/postgres/watermarks'
import { startQuery, storeEvents, type TestQuery } from '../support/query.ts'
import { headline } from './support/numbers.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { seededEvents } from './support/seed.ts'
import { describeWithChromium, useBrowser, type Visit } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'

describeWithChromium('faults', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig({ isEmbedded: true })
    await rig.send(seededEvents({ siteId, now: Date.now(), sessions: 150 }))
  })
  afterAll(() => rig.stop())

  const visit = async (): Promise<Visit> => {
    const visit = await visitors.open()
    await openSession(visit.page, rig.url, rig.admin)
    return visit
  }
  const overview = `/sites/${siteId}?range=28d`

  it('shows an error with Retry while ClickHouse stands, and the numbers once it runs again', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 503/)
    await page.goto(rig.url + overview)
    await numbersOf(page)
    const pid = rig.clickHousePid()
    process.kill(pid, 'SIGSTOP')
    try {
      await page.keyboard.press('w')
      await page.getByRole('button', { name: 'Retry' }).first().waitFor({ timeout: 60_000 })
      await page.getByText('Service temporarily unavailable').first().waitFor()
      await page
        .getByText(/Request \S+/)
        .first()
        .waitFor()
      await page.getByRole('link', { name: 'API Keys' }).waitFor()
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    const retry = page.getByRole('button', { name: 'Retry' })
    if ((await retry.count()) > 0)
      await retry
        .first()
        .click()
        .catch(() => undefined)
    await waitUntilPasses(async () => {
      expect(await retry.count()).toBe(0)
      expect(await headline(page, 'Events')).toBeGreaterThan(0)
    })
  })

  it('shows why one question of a batch has no answer, and asks again by itself until it has', async () => {
    const { page } = await visit()
    const failed = { success: false, status: 503, error: 'Service temporarily unavailable' }
    let tries = 0
    let isBroken = true
    await page.route(/\/api\/v1\/stats\/batch$/, async (route) => {
      const body = route.request().postDataJSON() as { queries: { metric: string; compare?: string }[] }
      const isFirst = body.queries.some(({ metric }) => metric === 'event_count') && body.queries.length === 3
      if (isFirst) tries++
      if (!isFirst || !isBroken) return route.fallback()
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { results: object[] } }
      answer.data.results[body.queries.findIndex(({ metric }) => metric === 'event_count')] = failed
      return route.fulfill({ response, json: answer })
    })
    await page.goto(rig.url + overview)
    await page.getByText(failed.error).first().waitFor()
    isBroken = false
    expect(await headline(page, 'Visitors')).toBeGreaterThan(0)
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBeGreaterThan(0))
    expect(tries).toBeGreaterThan(1)
    await waitUntilPasses(async () => expect(await page.getByText(failed.error).count()).toBe(0))
  })

  it('says that a list of sites ends before the last one, and how to get the others', async () => {
    const { page } = await visit()
    const note = page.getByText(/The first [0-9]+ of [0-9]+ are listed.*GET \/api\/v1\/sites[?]/)
    await page.goto(rig.url)
    await page.getByRole('row').nth(1).waitFor()
    expect(await note.count()).toBe(0)
    await page.route('**/api/v1/sites?limit=1000', async (route) => {
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { sites: unknown[] } }
      const total = answer.data.sites.length + 5
      return route.fulfill({ response, json: { ...answer, data: { ...answer.data, total } } })
    })
    await page.reload()
    await note.waitFor()
  })

  it.each([
    ['exports', 'No exports yet'],
    ['imports', 'Nothing was imported yet'],
  ])('leads from a page of the list of %s that has none left to the last one that has', async (name, nothing) => {
    const { page } = await visit()
    const ids = Array.from({ length: 5 }, (_, at) => ({ export_id: `e-${at}`, job_id: `j-${at}` }))
    const record = { type: 'events', format: 'csv', compression: null, name: 'A file', rows: 1, bytes: 1 }
    const times = { created_at: Date.now(), scheduled: null, total_records: 7, processed_records: 7, failed_records: 0 }
    const answered = { release: (): void => undefined }
    const isReleased = new Promise<void>((resolve) => (answered.release = resolve))
    await page.route(new RegExp(`/api/v1/${name}[?]`), async (route) => {
      const offset = Number(new URL(route.request().url()).searchParams.get('offset'))
      const records = offset < 55 ? ids.map((each) => ({ ...record, ...times, ...each, status: 'completed' })) : []
      if (offset < 55) await isReleased
      const data = { [name]: records, total: 55 }
      await route.fulfill({ json: { success: true, timestamp: Date.now(), data } })
    })
    await page.goto(`${rig.url}/sites/${siteId}?range=7d`)
    await page.goto(`${rig.url}/sites/${siteId}/${name}?offset=100`)
    await page.waitForURL(/[?]offset=50$/)
    await page.getByRole('status').filter({ hasText: 'Loading' }).first().waitFor()
    expect(await page.getByText(nothing).count()).toBe(0)
    answered.release()
    await waitUntilPasses(async () => expect(await page.getByRole('main').getByRole('row').count()).toBe(6))
    await page.getByText('51–55 of 55').waitFor()
    await page.goBack()
    await page.waitForURL(`${rig.url}/sites/${siteId}?range=7d`)
  })

  it('forgets the failure of a comparison that is switched off', async () => {
    const { page } = await visit()
    const failed = { success: false, status: 500, error: 'Something went wrong' }
    const start = Math.floor(Date.now() / 86_400_000 - 27) * 86_400_000
    await page.route(/\/api\/v1\/stats\/batch$/, async (route) => {
      const { queries } = route.request().postDataJSON() as { queries: { start_date: number; group_by?: string }[] }
      if (queries.length !== 3 || queries.some((each) => each.start_date >= start)) return route.fallback()
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { results: object[] } }
      answer.data.results[1] = failed
      return route.fulfill({ response, json: answer })
    })
    await page.goto(rig.url + overview)
    await page.getByText(failed.error).first().waitFor()
    await page.keyboard.press('x')
    await page.waitForURL(/compare=none/)
    await waitUntilPasses(async () => expect(await page.getByText(failed.error).count()).toBe(0))
    await numbersOf(page)
  })

  it('compares the steps of a funnel with the answer for the compared days alone', async () => {
    const { page } = await visit()
    const hold = { isOn: false, release: [] as (() => void)[] }
    const today = Math.floor(Date.now() / 86_400_000) * 86_400_000
    await page.route(/\/api\/v1\/funnel$/, async (route) => {
      const { end_date: end } = route.request().postDataJSON() as { end_date: number }
      // The question for the compared days is answered late.
      if (hold.isOn && end < today) await new Promise<void>((resolve) => hold.release.push(resolve))
      await route.fallback()
    })
    await page.goto(`${rig.url}/sites/${siteId}/funnels?range=7d`)
    const changes = page.getByRole('list', { name: 'Steps' }).locator('.change')
    const steps = page.getByRole('list', { name: 'Steps' })
    await changes.first().waitFor()
    hold.isOn = true
    await page.keyboard.press('n')
    await page.waitForURL(/range=91d/)
    await waitUntilPasses(async () => {
      expect(hold.release.length).toBe(1)
      expect(await page.locator('.funnel.old').count()).toBe(0)
    })
    expect(await changes.count()).toBe(0)
    hold.isOn = false
    for (const release of hold.release) release()
    await page.keyboard.press('w')
    await changes.first().waitFor()
    await page.keyboard.press('x')
    await page.waitForURL(/compare=none/)
    await waitUntilPasses(async () => expect(await changes.count()).toBe(0))
    expect(await steps.locator('[data-number]').count()).toBeGreaterThan(0)
  })

  it('shows what Postgres holds of a site whose record can not be read', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 503/)
    await page.route(
      ({ pathname }) => pathname === `/api/v1/sites/${siteId}`,
      (route) => route.fulfill({ status: 503, json: { success: false, error: 'Not now', timestamp: Date.now() } }),
    )
    await page.goto(`${rig.url}/sites/${siteId}/webhooks`)
    await page.getByText('Not now').waitFor()
    await page.getByRole('heading', { name: 'Webhooks' }).waitFor()
    await page.getByRole('button', { name: 'New webhook' }).first().waitFor()
  })

  it('says why the sites are not listed while they are asked for again', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 503/)
    let tries = 0
    await page.route(
      ({ pathname }) => pathname === '/api/v1/sites',
      (route) =>
        tries++ === 0
          ? route.fulfill({ status: 503, json: { success: false, error: 'Not now', timestamp: Date.now() } })
          : undefined,
    )
    await page.goto(rig.url)
    await page.getByRole('main').getByText('Not now').waitFor()
    await waitUntilPasses(() => expect(tries).toBeGreaterThan(1))
    await page.getByRole('main').getByText('Not now').waitFor()
    await page.getByText('Trying again…').waitFor()
  })

  it('says why a site of the list has no number', async () => {
    const { page } = await visit()
    await page.route(/\/api\/v1\/stats\/batch$/, async (route) => {
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { results: object[] } }
      answer.data.results[0] = { success: false, status: 503, error: 'Service temporarily unavailable' }
      await route.fulfill({ response, json: answer })
    })
    await page.goto(rig.url)
    const row = page.getByRole('row').filter({ hasText: siteId })
    await row.getByText('Service temporarily unavailable').first().waitFor()
    await row.getByText('–', { exact: true }).first().waitFor()
    expect(await row.locator('.skeleton').count()).toBe(0)
  })

  it.each([
    [
      'sites',
      'in the switcher',
      overview,
      async (page: Page) => page.getByRole('button', { name: /^Switch site/ }).click(),
    ],
    [
      'sites',
      'in the form of a key',
      '/settings/keys',
      async (page: Page) => page.getByRole('button', { name: 'Create key' }).first().click(),
    ],
    ['cohorts', 'above the matrix of retention', `/sites/${siteId}/retention`, () => Promise.resolve()],
    [
      'cohorts',
      'in the form of an export',
      `/sites/${siteId}/exports`,
      async (page: Page) => {
        await page.getByRole('button', { name: 'New export' }).first().click()
        await page.getByRole('dialog').getByLabel('What to export').selectOption('cohort')
      },
    ],
  ])('says why there are no %s to choose %s, and has them after Retry', async (what, _where, path, open) => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 500/)
    const service = { isBroken: true }
    await page.route(
      ({ pathname }) => pathname === `/api/v1/${what}`,
      async (route) => {
        if (!service.isBroken) return route.fallback()
        const json = { success: false, error: `No ${what} today`, timestamp: Date.now() }
        await route.fulfill({ status: 500, json })
      },
    )
    await page.goto(rig.url + path)
    await open(page)
    const failure = page.getByRole('alert').filter({ hasText: `No ${what} today` })
    await failure.first().waitFor()
    service.isBroken = false
    await failure.first().getByRole('button', { name: 'Retry' }).click()
    await failure.first().waitFor({ state: 'detached' })
  })

  it('says why the list of all values lacks a metric, and has it after Retry', async () => {
    const { page } = await visit()
    const failed = { success: false, status: 500, error: 'Something went wrong' }
    const service = { isBroken: true }
    await page.route(/\/api\/v1\/stats\/batch$/, async (route) => {
      const { queries } = route.request().postDataJSON() as { queries: { metric: string; group_by?: string }[] }
      const at = queries.findIndex(({ metric, group_by: by }) => metric === 'bounce_rate' && by === 'path')
      if (at === -1 || !service.isBroken) return route.fallback()
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { results: object[] } }
      answer.data.results[at] = failed
      return route.fulfill({ response, json: answer })
    })
    await page.goto(rig.url + overview)
    await page.getByRole('region', { name: 'Pages', exact: true }).getByRole('button', { name: 'All' }).click()
    const dialog = page.getByRole('dialog', { name: 'All pages' })
    await dialog.getByText(failed.error).waitFor()
    service.isBroken = false
    await dialog.getByRole('button', { name: 'Retry' }).click()
    await waitUntilPasses(async () => expect(await dialog.getByText(failed.error).count()).toBe(0))
  })

  /** Opens a page while an operation is refused, and expects the reason on it. */
  const expectReason = async (path: string, refused: RegExp): Promise<void> => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 503/)
    const error = 'Service temporarily unavailable'
    await page.route(refused, (route) =>
      route.fulfill({ status: 503, json: { success: false, error, timestamp: Date.now() } }),
    )
    await page.goto(rig.url + path)
    await page.getByRole('main').getByText(error).first().waitFor()
  }

  it('says why the last deliveries of a webhook are not drawn', async () => {
    await rig.call('POST', '/api/v1/webhooks', { site_id: siteId, url: 'http://127.0.0.1:9/', events: ['alert'] })
    await expectReason(`/sites/${siteId}/webhooks`, /\/deliveries[?]/)
  })

  it('says why the chart of what an alert rule did is missing', async () => {
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      site_id: siteId,
      name: 'Always',
      condition: { metric: 'event_count', operator: 'greater_than_or_equal', threshold: 0, window: '1h' },
      notification_type: 'webhook',
      notification_config: { url: 'http://127.0.0.1:9/' },
    })
    const { page, expectMessages } = await visit()
    expectMessages(/status of 503/)
    const error = 'Service temporarily unavailable'
    await page.route(/\/api\/v1\/.*\/history[?]/, async (route) => {
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { history: object[] } }
      const fired = { from: 'ok', to: 'firing', value: 1, firing_id: 'f', test: false, notification: null }
      answer.data.history = [{ ...fired, timestamp: Date.now() - 60_000 }]
      await route.fulfill({ response, json: answer })
    })
    await page.route(/\/api\/v1\/alerts\/preview$/, (route) =>
      route.fulfill({ status: 503, json: { success: false, error, timestamp: Date.now() } }),
    )
    await page.goto(`${rig.url}/sites/${siteId}/alerts?open=${id}`)
    await page.getByRole('region', { name: 'History' }).getByRole('alert').getByText(error).waitFor()
    await page.close()
    await rig.call('DELETE', `/api/v1/alerts/${id}`)
  })

  it('says that it is not known whether another environment has the events of an empty range', async () => {
    const event = { site_id: 'quiet', event_type: 'view', event_id: 'only', session_id: 'only' }
    await rig.send([{ ...event, timestamp: Date.now() - 60 * 86_400_000 }])
    await expectReason('/sites/quiet?range=28d', /\/api\/v1\/stats[?].*environment=dev/)
  })

  it('names an answer that is not of Sluice, and goes on with the rest', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 502/)
    const proxy = { isBroken: true }
    await page.route(/\/api\/v1\/stats\/batch$/, (route) =>
      proxy.isBroken
        ? route.fulfill({ status: 502, contentType: 'text/html', body: '<html><h1>502 Bad Gateway</h1></html>' })
        : route.fallback(),
    )
    await page.goto(rig.url + overview)
    await page
      .getByText(/did not come from Sluice/)
      .first()
      .waitFor()
    await page.getByRole('link', { name: 'API Keys' }).waitFor()
    expect(await page.getByText('Bad Gateway').count()).toBe(0)
    proxy.isBroken = false
    await page.getByRole('button', { name: 'Retry' }).first().click()
    await numbersOf(page)
  })

  it.each(['a day ahead', 'a day behind'])('counts by the time of the server on a machine that is %s', async (text) => {
    const { page, context } = await visit()
    await context.clock.install({ time: Date.now() + (text === 'a day ahead' ? 86_400_000 : -86_400_000) })
    const asked = page.waitForRequest(
      (request) => request.url().endsWith('/stats/batch') && request.method() === 'POST',
    )
    await page.goto(`${rig.url}/sites/${siteId}?range=today&compare=none`)
    await asked
    await numbersOf(page)
    const parameters = new URLSearchParams({
      site_id: siteId,
      metric: 'event_count',
      start_date: String(Math.floor(Date.now() / 86_400_000) * 86_400_000),
    })
    const { value } = await rig.call<{ value: number }>('GET', `/api/v1/stats?${parameters.toString()}`)
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBe(value))
  })

  it('works where storage is forbidden', async () => {
    const { page } = await visit()
    await page.addInitScript({
      content: `for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, {
        get() { throw new DOMException('The operation is insecure.', 'SecurityError') },
      })`,
    })
    await page.goto(rig.url + overview)
    await numbersOf(page)
    await page.goto(`${rig.url}/settings/session`)
    await page.getByRole('radio', { name: 'Dark' }).click()
    await page.goto(rig.url + overview)
    await numbersOf(page)
  })

  it('works where storage is full', async () => {
    const { page } = await visit()
    await page.addInitScript({
      content: `try { for (let size = 2 ** 20, n = 0; size > 0; n++) try { localStorage.setItem('x' + n, 'x'.repeat(size)) } catch { size = Math.floor(size / 2) } } catch {}`,
    })
    await page.goto(rig.url + overview)
    await numbersOf(page)
    await page.goto(`${rig.url}/settings/session`)
    await page.getByRole('radio', { name: 'Dark' }).click()
    await page.goto(rig.url + overview)
    await numbersOf(page)
  })

  it('loads anew, once, when the scripts of a page belong to an older version', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 404/)
    await page.goto(rig.url + overview)
    await numbersOf(page)
    let documents = 0
    // The older version's scripts are gone; the page that is loaded anew is of the newer version.
    page.on('request', (request) => {
      if (request.isNavigationRequest()) documents++
    })
    await page.route(/\/assets\/.*\.js$/, (route) =>
      documents === 0 ? route.fulfill({ status: 404 }) : route.fallback(),
    )
    await page.getByRole('link', { name: 'Retention', exact: true }).click()
    await page.getByRole('table').first().waitFor()
    expect(documents).toBe(1)
  })

  it('says what to do when the scripts of a page are missing after that, and goes on with other pages', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 404/)
    await page.goto(rig.url + overview)
    await numbersOf(page)
    const loaded = await page.evaluate<string[]>(
      `performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => name.includes('/assets/'))`,
    )
    await page.route(/\/assets\/.*\.js$/, (route) =>
      loaded.includes(route.request().url()) ? route.fallback() : route.fulfill({ status: 404 }),
    )
    await page.getByRole('link', { name: 'Retention', exact: true }).click()
    await page.getByText(/newer version/).waitFor()
    await page.getByRole('link', { name: 'Overview', exact: true }).click()
    await numbersOf(page)
  })

  it('stays, and says why, when the scripts of a page can not be fetched because Sluice is unavailable', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/ERR_INTERNET_DISCONNECTED/)
    await page.goto(rig.url + overview)
    await numbersOf(page)
    await page.context().setOffline(true)
    await page.getByRole('link', { name: 'Retention', exact: true }).click()
    await page
      .getByRole('main')
      .getByText(/can’t be reached/)
      .first()
      .waitFor()
    await page.context().setOffline(false)
    await page.getByRole('button', { name: 'Reload' }).click()
    await page.getByRole('table').first().waitFor()
  })

  it('says that it could not be loaded when its first script is missing, as while another version is installed', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 404/)
    const script = /\/assets\/main-[^/]*\.js$/
    await page.route(script, (route) => route.fulfill({ status: 404 }))
    await page.goto(rig.url + overview)
    await page.getByText('The dashboard could not be loaded.').waitFor()
    await page.unroute(script)
    await page.getByRole('button', { name: 'Reload' }).click()
    await numbersOf(page)
  })

  it('counts down to the next try when there were too many requests', async () => {
    const { key } = await rig.createKey({
      name: 'slow',
      scopes: ['stats:read'],
      rate_limits: { queries_per_minute: 25 },
    })
    const { page, expectMessages } = await visitors.open()
    expectMessages(/status of 429/)
    await openSession(page, rig.url, key)
    await page.goto(rig.url + overview)
    await numbersOf(page)
    await page.keyboard.press('w')
    await page.keyboard.press('d')
    await page
      .getByText(/Next try in \d+ second/)
      .first()
      .waitFor()
  })

  it('delay an export of what the page showed when it was asked for', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 503/)
    const bodies: unknown[] = []
    await page.route(/\/api\/v1\/exports$/, async (route) => {
      if (route.request().method() !== 'POST') return route.fallback()
      bodies.push(route.request().postDataJSON())
      if (bodies.length > 1) return route.fallback()
      const json = { success: false, error: 'Service temporarily unavailable', timestamp: Date.now() }
      return route.fulfill({ status: 503, headers: { 'Retry-After': '60' }, json })
    })
    await page.clock.install()
    await page.goto(`${rig.url}/sites/${siteId}/events?range=7d`)
    await page.getByRole('button', { name: 'Export these events' }).click()
    await page.getByText(/Next try in \d+ second/).waitFor()
    await page.keyboard.press('d')
    await page.waitForURL(/range=today/)
    await page.clock.runFor(61_000)
    await page.getByText('The export was requested.').first().waitFor()
    expect(bodies).toEqual([bodies[0], bodies[0]])
  })
})

describeWithChromium('a writer that has stopped', () => {
  const visitors = useBrowser()
  let query: TestQuery

  beforeEach(async () => {
    query = await startQuery()
    await query.clickHouse.create()
    await query.request('/api/v1/sites', { method: 'POST', body: { site_id: siteId } })
    await storeEvents(query, siteId, [Date.now() - 3_600_000])
  })
  afterEach(() => query.stop())

  const open = async (): Promise<Page> => {
    const { page } = await visitors.open()
    await openSession(page, query.service.url, query.admin)
    await page.goto(`${query.service.url}/sites/${siteId}`)
    await numbersOf(page)
    return page
  }

  it('is announced by a banner, beside what is stored', async () => {
    const page = await open()
    await page.getByText('Accepted events are not stored yet').first().waitFor()
    expect(await headline(page, 'Events')).toBe(1)
  })

  it.each([360, 800, 1280])('is announced above the title of a page that is %d pixels wide', async (width) => {
    const page = await open()
    await page.setViewportSize({ width, height: 740 })
    const banner = page.getByRole('status', { name: 'Freshness' })
    await banner.getByText('Accepted events are not stored yet').waitFor()
    const title = page.getByRole('heading', { level: 1 })
    await waitUntilPasses(async () => {
      const [above, below] = [await banner.boundingBox(), await title.boundingBox()]
      const bar = await page.locator('.sticky-bar').boundingBox()
      expect((above?.y ?? NaN) + (above?.height ?? NaN)).toBeLessThanOrEqual(below?.y ?? NaN)
      expect(above).toMatchObject({ x: bar?.x, width: bar?.width })
    })
  })

  it('is told by the minutes that numbers are behind', async () => {
    await watermarkStore(query.postgres).advance('a-log', [Date.now() - 2 * 60_000])
    const page = await open()
    await page.getByRole('status', { name: 'Freshness' }).getByText('2 min behind').waitFor()
    expect(await page.getByText('Accepted events are not stored yet').count()).toBe(0)
  })
})

/** Waits until the headline shows numbers. */
async function numbersOf(page: Page): Promise<void> {
  await waitUntilPasses(async () => expect(await headline(page, 'Events')).not.toBeNaN())
}
