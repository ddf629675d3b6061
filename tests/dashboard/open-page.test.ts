import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Locator, Page, Route } from 'playwright-core'
import { headline } from './support/numbers.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { seededEvents } from './support/seed.ts'
import { describeWithChromium, useBrowser, type Visit } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'
const dayMs = 86_400_000
const criteria = { type: 'and', conditions: [{ property: 'country', operator: 'equals', value: 'DE' }] }

/** What a page did while its questions failed, by the clock of the page. */
interface Recorded {
  /** Each question for live figures: when it was asked, and the alert that was shown at that moment, if any. */
  tries: { at: number; alert: string | null }[]
  /** Failures that have appeared, and skeletons since the first of them. */
  alerts: number
  skeletons: number
}

/** Runs before the scripts of the page. */
const recorder = `(() => {
  const recorded = (globalThis.recorded = { tries: [], alerts: 0, skeletons: 0 })
  const send = globalThis.fetch
  globalThis.fetch = (url, options) => {
    if (String(url).includes('/api/v1/live')) {
      const alert = document.querySelector('main [role=alert]')
      recorded.tries.push({ at: Date.now(), alert: alert && alert.textContent })
    }
    return send(url, options)
  }
  const countOf = (node, selector) => Number(node.matches(selector)) + node.querySelectorAll(selector).length
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) {
      if (!(node instanceof Element)) continue
      if (recorded.alerts > 0) recorded.skeletons += countOf(node, '.skeleton')
      recorded.alerts += countOf(node, '.error-panel')
    }
  }).observe(document, { childList: true, subtree: true })
})()`

/** A record of a schedule. */
interface Schedule {
  status: string
  created_at: number
  scheduled: { next_run: number } | null
}

/** What the tests change of the `data` of answers. */
interface Patched extends Schedule {
  keys: { key_id: string; last_used_at: number | null }[]
  exports: Schedule[]
  runs: object[]
  total: number
  history: object[]
  alerts: object[]
  series: { timestamp: number; value: number }[]
  firings: object[]
  results: { data: { timestamp: number } }[]
  imports: object[]
  sites: { timezone: string }[]
  timezone: string
  complete_until: number
}

const recordedOf = (page: Page): Promise<Recorded> => page.evaluate<Recorded>('globalThis.recorded')

describeWithChromium('a page that is open', () => {
  const visitors = useBrowser()
  let rig: Rig

  beforeAll(async () => {
    rig = await startRig()
    await rig.send(seededEvents({ siteId, now: Date.now(), sessions: 20 }))
  })
  afterAll(() => rig.stop())

  const visit = async (): Promise<Visit> => {
    const visit = await visitors.open()
    await openSession(visit.page, rig.url, rig.admin)
    await visit.page.clock.install()
    return visit
  }

  /** Moves the clock of the page second by second until the check passes. */
  const runUntil = (page: Page, check: () => Promise<void> | void): Promise<void> =>
    waitUntilPasses(async () => {
      await page.clock.runFor(1_000)
      await check()
    })

  /** Marks an element: another one that takes its place has no mark. */
  const mark = (element: Locator): Promise<void> =>
    element.evaluate((each: { dataset: Record<string, string> }) => {
      each.dataset.marked = ''
    })

  /**
   * Lets a minute pass, after which the page refetches. The answers wait for the call of what this resolves to: the page
   * goes by the clock of the server, which each answer tells, and a minute with answers is one of real time.
   */
  const passMinute = async (page: Page): Promise<() => void> => {
    const held = Promise.withResolvers<undefined>()
    await page.route(/\/api\/v1\//, async (route) => {
      await held.promise
      // One that was given up can't go on.
      await route.fallback().catch(() => undefined)
    })
    await page.clock.runFor(61_000)
    return () => held.resolve(undefined)
  }

  /** Lets a minute pass: checks the page before the answers that it asked for are there, and after them. */
  const expectKeptForAMinute = async (page: Page, asked: RegExp, check: () => Promise<void>): Promise<void> => {
    await check()
    const request = page.waitForRequest(asked)
    const release = await passMinute(page)
    await request
    await page.clock.runFor(1_000)
    await check()
    const response = page.waitForResponse(asked)
    release()
    await response
    await page.locator('main .old').first().waitFor({ state: 'detached' })
    await check()
  }

  it.each([
    ['a range without events', '?range=28d', 'Show'],
    ['filters that nothing matches', '?range=28d&f=country:equals:AQ', 'Clear'],
  ])('keeps the explanation of %s, and the focus in it, as the minutes pass', async (_, search, name) => {
    await rig.send([
      {
        site_id: 'quiet',
        event_type: 'view',
        timestamp: Date.now() - 60 * dayMs,
        event_id: 'only',
        session_id: 'only',
      },
    ])
    const { page } = await visit()
    await page.goto(`${rig.url}/sites/quiet${search}`)
    const button = page.getByRole('main').getByRole('button', { name: new RegExp(`^${name}`) })
    await button.waitFor()
    await button.focus()
    await mark(button)
    await expectKeptForAMinute(page, /\/api\/v1\/stats\/batch$/, async () => {
      expect(await page.locator('[data-marked]:focus').count()).toBe(1)
      expect(await page.locator('[data-panel]').count()).toBe(0)
    })
  })

  it('keeps the row of a rare value that is chosen, as the minutes pass', async () => {
    const countries = ['DE', 'FR', 'US', 'GB', 'IN', 'BR', 'JP', 'CH', 'PL', 'ES', 'IS']
    await rig.send(
      countries.flatMap((country) =>
        Array.from({ length: country === 'IS' ? 1 : 2 }, (_, n) => ({
          site_id: 'widespread',
          event_type: 'view',
          timestamp: Date.now() - 60_000 * n,
          event_id: `${country}-${n}`,
          session_id: `${country}-${n}`,
          country,
        })),
      ),
    )
    const { page } = await visit()
    await page.goto(`${rig.url}/sites/widespread?range=28d&f=country:in:DE,IS`)
    const panel = page.getByRole('region', { name: 'Countries', exact: true })
    const row = panel.getByRole('button', { name: 'Iceland', pressed: true })
    await row.waitFor()
    await mark(row)
    await expectKeptForAMinute(page, /\/api\/v1\/stats[?].*group_by=country/, async () =>
      expect(await panel.locator('[data-marked]').allTextContents()).toEqual([expect.stringContaining('Iceland')]),
    )
  })

  it('closes the table of numbers that it can no longer get, and does not open it again with the next ones', async () => {
    const { page, expectMessages } = await visit()
    expectMessages(/status of 503/)
    await page.goto(`${rig.url}/sites/${siteId}?range=28d`)
    const panel = page.getByRole('region', { name: 'Countries', exact: true })
    await panel.getByRole('button', { name: /^More/ }).click()
    await page.getByRole('button', { name: 'Show table', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.waitFor()
    const asked = /\/api\/v1\/stats[?].*group_by=country/
    await page.route(asked, (route) =>
      route.fulfill({ status: 503, json: { success: false, error: 'Service unavailable', timestamp: Date.now() } }),
    )
    const release = await passMinute(page)
    release()
    await runUntil(page, async () => expect(await dialog.count()).toBe(0))
    await page.unroute(asked)
    await runUntil(page, async () => {
      expect(await panel.getByRole('button', { name: /^More/ }).count()).toBe(1)
    })
    expect(await dialog.count()).toBe(0)
  })

  it('opens by T no table that has no numbers yet, and closes one that has none any more, for good', async () => {
    const { page } = await visit()
    const asked = /\/api\/v1\/stats\/batch$/
    const isOfChart = (route: Route) => {
      const { queries } = route.request().postDataJSON() as { queries: { group_by?: string }[] }
      return ['hour', 'day'].includes(queries[0]?.group_by ?? '')
    }
    const held = Promise.withResolvers<undefined>()
    const service = { isBroken: false }
    await page.route(asked, async (route) => {
      if (!isOfChart(route)) return route.fallback()
      await held.promise
      if (!service.isBroken) return route.fallback()
      const failed = { success: false, status: 503, error: 'Service temporarily unavailable' }
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { results: object[] } }
      answer.data.results = answer.data.results.map(() => failed)
      return route.fulfill({ response, json: answer })
    })
    await page.goto(`${rig.url}/sites/${siteId}?range=28d`)
    const chart = page.getByRole('region', { name: 'Visitors', exact: true })
    await chart.waitFor()
    await page.keyboard.press('t')
    held.resolve(undefined)
    await chart.getByRole('button', { name: /^More/ }).waitFor()
    const dialog = page.getByRole('dialog')
    expect(await dialog.count()).toBe(0)
    await page.keyboard.press('t')
    await dialog.waitFor()
    service.isBroken = true
    const release = await passMinute(page)
    release()
    await runUntil(page, async () => expect(await dialog.count()).toBe(0))
    service.isBroken = false
    await runUntil(page, async () => expect(await chart.getByRole('button', { name: /^More/ }).count()).toBe(1))
    expect(await dialog.count()).toBe(0)
  })

  it('mutes the numbers of a funnel while other steps are shown than they are of', async () => {
    const { page } = await visit()
    await page.goto(`${rig.url}/sites/${siteId}/funnels?steps=page_view>click`)
    const steps = page.getByRole('list', { name: 'Steps' })
    await steps.locator('[data-number]').first().waitFor()
    expect(await page.locator('main .old').count()).toBe(0)
    // The address gets the steps a moment later, and then they are asked about.
    await page.clock.pauseAt((await page.evaluate<number>('Date.now()')) + 1_000)
    await page.getByRole('button', { name: 'Move step 2 up' }).click()
    await page.locator('.funnel.old').waitFor()
    await page.locator('.funnel-result.old').waitFor()
  })

  it.each([
    ['is not reached, from the first try on', 0, (route: Route) => route.abort(), [5, 10, 20, 30]],
    [
      'asks for 40 seconds, after an answer',
      1,
      (route: Route) =>
        route.fulfill({
          status: 429,
          headers: { 'Retry-After': '40' },
          json: { success: false, error: 'Rate limit exceeded', timestamp: Date.now() },
        }),
      [40, 40],
    ],
  ] as const)('waits as long as it says while Sluice %s, and goes on then', async (_, answers, fail, waits) => {
    const { page, expectMessages } = await visit()
    expectMessages(/ERR_FAILED|status of 429/)
    await page.addInitScript({ content: recorder })
    const service = { answered: 0, isBroken: true }
    await page.route(/\/api\/v1\/live[?]/, (route) => {
      if (service.isBroken && service.answered === answers) return fail(route)
      service.answered++
      return route.fallback()
    })
    await page.goto(`${rig.url}/sites/${siteId}/live`)
    const alert = page.getByRole('main').getByRole('alert')
    await runUntil(page, async () => expect(await alert.count()).toBe(1))
    await runUntil(page, async () =>
      expect((await recordedOf(page)).tries.length).toBeGreaterThan(answers + waits.length),
    )
    const { tries, alerts, skeletons } = await recordedOf(page)
    const failed = tries.slice(answers)
    for (const [at, wait] of waits.entries()) {
      expect((failed[at + 1]?.at ?? NaN) - (failed[at]?.at ?? NaN)).toBeGreaterThanOrEqual(wait * 1000)
      expect(failed[at + 1]?.alert).toMatch(/Next try in 1 second|Trying again/)
    }
    expect({ alerts, skeletons }).toEqual({ alerts: 1, skeletons: 0 })
    service.isBroken = false
    await alert.getByRole('button', { name: 'Retry' }).click()
    await alert.waitFor({ state: 'detached' })
    const { tries: before } = await recordedOf(page)
    await runUntil(page, async () => expect((await recordedOf(page)).tries.length).toBeGreaterThan(before.length + 2))
    expect(await alert.count()).toBe(0)
  })

  it('mutes live figures that are no longer the present, and does not call old answers up to date', async () => {
    const { page } = await visit()
    const answered = new Set<string>()
    await page.route(/\/api\/v1\/(live|stats)[?]/, (route) => {
      const { pathname } = new URL(route.request().url())
      if (answered.has(pathname)) return undefined
      answered.add(pathname)
      return route.fallback()
    })
    await page.goto(`${rig.url}/sites/${siteId}/live`)
    await runUntil(page, async () => {
      expect(await page.getByText('Up to date').count()).toBe(1)
      expect(await page.locator('.live .big-number .skeleton').count()).toBe(0)
    })
    expect(await page.locator('.live.old').count()).toBe(0)
    await runUntil(page, async () => {
      expect(await page.locator('.live.old').count()).toBe(1)
      expect(await page.getByText('Freshness unknown').count()).toBe(1)
    })
    // Nor does it have them spoken, as those of the present are each 30 seconds.
    const spoken = page.locator('.announcer').first()
    const before = await spoken.textContent()
    await page.clock.runFor(31_000)
    expect(await spoken.textContent()).toBe(before)
    expect(await page.getByRole('main').getByRole('alert').count()).toBe(0)
  })

  /** Answers with what `change` makes of the `data` of the real answer. */
  const patch = async (page: Page, path: RegExp, change: (data: Patched) => void): Promise<void> => {
    await page.route(path, async (route) => {
      const response = await route.fetch()
      const answer = (await response.json()) as { data: Patched }
      change(answer.data)
      return route.fulfill({ response, json: answer })
    })
  }

  it('asks again about yesterday while events of it are still being stored', async () => {
    const { page } = await visit()
    const service = { value: 1, lagMs: 20 * 60_000 }
    await patch(page, /\/api\/v1\/stats\/batch$/, ({ results }) => {
      for (const { data } of results)
        Object.assign(data, { value: service.value, complete_until: data.timestamp - service.lagMs })
    })
    await page.goto(`${rig.url}/sites/${siteId}?range=yesterday`)
    const note = page.getByText('Events with old timestamps are still arriving')
    await runUntil(page, async () => {
      expect(await headline(page, 'Events')).toBe(1)
      expect(await note.count()).toBe(1)
    })
    Object.assign(service, { value: 2, lagMs: 0 })
    await runUntil(page, async () => {
      expect(await headline(page, 'Events')).toBe(2)
      expect(await note.count()).toBe(0)
    })
  })

  it.each([
    ['a funnel of yesterday', 'funnels?range=yesterday&steps=page_view>click', /\/api\/v1\/funnel$/],
    ['the events of yesterday', 'events?range=yesterday', /\/api\/v1\/events[?]/],
    ['the groups of yesterday', '?range=yesterday', /\/api\/v1\/stats[?].*group_by=path/],
  ])('asks again about %s that may not be complete', async (_, path, asked) => {
    const { page } = await visit()
    await patch(page, asked, (data) => Object.assign(data, { complete_until: 0 }))
    const counts = new Map<string, number>()
    page.on('request', (request) => {
      const key = request.url() + (request.postData() ?? '')
      if (asked.test(request.url())) counts.set(key, (counts.get(key) ?? 0) + 1)
    })
    await page.goto(`${rig.url}/sites/${siteId}/${path}`)
    await runUntil(page, () => expect(Math.max(...counts.values())).toBeGreaterThan(1))
  })

  it('shows the times of a site in UTC whose time zone the browser does not know, and says so', async () => {
    const { page } = await visit()
    const timezone = 'Mars/Base'
    await patch(page, /\/api\/v1\/sites[?]/, ({ sites }) => sites.forEach((each) => Object.assign(each, { timezone })))
    await patch(page, /\/api\/v1\/sites\/[^/]+$/, (data) => Object.assign(data, { timezone }))
    await page.goto(rig.url)
    const row = page.getByRole('row').filter({ hasText: timezone }).filter({ hasText: siteId })
    await row.locator('time').waitFor()
    await row.getByRole('link').click()
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBeGreaterThan(0))
    await page.getByText('This browser does not know the site’s time zone, Mars/Base.').waitFor()
  })

  it('shows a page that crashed once when its reader comes back to it', async () => {
    const { page } = await visit()
    await page.goto(`${rig.url}/settings/session`)
    await page.getByText(/^key_/).waitFor()
    await page.evaluate(`
      globalThis.format = Intl.RelativeTimeFormat.prototype.format
      Intl.RelativeTimeFormat.prototype.format = () => { throw new Error('broken') }
    `)
    const sites = page.locator('a[href="/"]').first()
    await sites.click()
    await page.getByText('An error occurred on this page').waitFor()
    await page.evaluate('Intl.RelativeTimeFormat.prototype.format = globalThis.format')
    await page.goBack()
    await page.getByText(/^key_/).waitFor()
    await sites.click()
    await page.getByRole('row').filter({ hasText: siteId }).waitFor()
  })

  it('says that a site was deleted elsewhere, except while something is shown that would be lost', async () => {
    await rig.call('POST', '/api/v1/sites', { site_id: 'doomed' })
    const { page, expectMessages } = await visit()
    expectMessages(/status of 404/)
    await page.goto(`${rig.url}/sites/doomed/settings`)
    await page.getByRole('button', { name: 'Delete site' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('textbox').fill('doomed')
    await dialog.getByRole('button', { name: 'Delete site' }).click()
    const id = dialog.getByText(/^era_/)
    await id.waitFor()
    const gone = page.waitForResponse((response) => response.status() === 404)
    await page.clock.runFor(61_000)
    await gone
    await page.clock.runFor(1_000)
    expect(await id.count()).toBe(1)

    await rig.call('POST', '/api/v1/sites', { site_id: 'gone-elsewhere' })
    const { page: other, expectMessages: expectOfOther } = await visit()
    expectOfOther(/status of 404/)
    await other.goto(`${rig.url}/sites/gone-elsewhere/settings`)
    await other.getByRole('button', { name: 'Delete site' }).waitFor()
    await rig.call('DELETE', '/api/v1/sites/gone-elsewhere')
    await runUntil(other, async () =>
      expect(await other.getByText('There is no site “gone-elsewhere”').count()).toBe(1),
    )
  })

  it('says that an alert rule was deleted elsewhere above what is edited of it', async () => {
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      site_id: siteId,
      name: 'Doomed',
      condition: { metric: 'event_count', operator: 'less_than', threshold: 1, window: '1h' },
      notification_type: 'slack',
      notification_config: { url: 'http://127.0.0.1:9/' },
    })
    const { page, expectMessages } = await visit()
    expectMessages(/status of 404/)
    await page.goto(`${rig.url}/sites/${siteId}/alerts?open=${id}`)
    await page.getByRole('heading', { name: 'Doomed' }).waitFor()
    // Its history tells as well that the rule is gone, but far below.
    await page.route(
      ({ pathname }) => pathname === `/api/v1/alerts/${id}`,
      (route) => route.fulfill({ status: 404, json: { success: false, error: 'It is gone', timestamp: Date.now() } }),
    )
    await runUntil(page, async () => expect(await page.getByText('It is gone').count()).toBe(1))
    expect(await page.getByRole('heading', { name: 'Doomed' }).count()).toBe(1)
    await page.close()
    await rig.call('DELETE', `/api/v1/alerts/${id}`)
  })

  it('lists an export that is made elsewhere while no other one is under way', async () => {
    const { page } = await visit()
    const makeExport = (name: string) =>
      rig.call('POST', '/api/v1/exports', { site_id: siteId, type: 'events', format: 'csv', name })
    const row = (name: string) => page.getByRole('row').filter({ hasText: name })
    await makeExport('Ours')
    await page.goto(`${rig.url}/sites/${siteId}/exports`)
    await runUntil(page, async () => expect(await row('Ours').innerText()).toContain('Completed'))
    await makeExport('Theirs')
    await runUntil(page, async () => expect(await row('Theirs').count()).toBe(1))
  })

  it('lists an import that is started elsewhere while no other one is under way', async () => {
    const { page } = await visit()
    const service = { imports: [] as object[] }
    await patch(page, /\/api\/v1\/imports[?]/, (data) => {
      data.imports = service.imports
      data.total = service.imports.length
    })
    await page.goto(`${rig.url}/sites/${siteId}/imports`)
    await page.getByText('Nothing was imported yet').waitFor()
    const counts = { total_records: 3, processed_records: 3, failed_records: 0 }
    service.imports = [{ job_id: 'job-1', type: 'events', status: 'completed', created_at: Date.now(), ...counts }]
    await runUntil(page, async () => expect(await page.getByRole('row').count()).toBe(2))
  })

  it('lists a cohort that is made elsewhere', async () => {
    const { page } = await visit()
    await page.goto(`${rig.url}/sites/${siteId}/cohorts`)
    await page.getByText('No cohort yet').waitFor()
    await rig.call('POST', '/api/v1/cohorts', { site_id: siteId, name: 'Viewers', criteria })
    await runUntil(page, async () => expect(await page.getByRole('row').filter({ hasText: 'Viewers' }).count()).toBe(1))
  })

  it.each([
    ['observed properties', 'events', [/\/api\/v1\/properties[?]/]],
    ['sizes and weeks of cohorts', 'cohorts', [/\/api\/v1\/cohorts\/preview$/, /\/api\/v1\/analytics\/cohorts[?]/]],
  ] as const)('refreshes the %s now and then', async (_, path, operations) => {
    const { cohort_id: id } = await rig.call<{ cohort_id: string }>('POST', '/api/v1/cohorts', {
      site_id: siteId,
      name: 'Germans',
      criteria,
    })
    const { page } = await visit()
    const answered = operations.map((each) => page.waitForResponse(each))
    await page.goto(`${rig.url}/sites/${siteId}/${path}?open=${id}`)
    await Promise.all(answered)
    // The answers are on the page once it has taken them.
    await page.clock.runFor(1_000)
    const requests = operations.map((each) => page.waitForRequest(each))
    await page.clock.fastForward(301_000)
    await Promise.all(requests)
  })

  it('refreshes the numbers of the sites that are on the screen, and of no others', async () => {
    for (let n = 10; n < 70; n++) await rig.call('POST', '/api/v1/sites', { site_id: `many-${n}` })
    const { page } = await visit()
    const asked: string[] = []
    await page.route('**/api/v1/stats/batch', (route) => {
      const { queries } = route.request().postDataJSON() as { queries: { site_id: string }[] }
      asked.push(queries.at(-1)?.site_id ?? '')
      return route.fallback()
    })
    await page.goto(rig.url)
    const rows = page.getByRole('row')
    for (const at of [15, 30, 45, 60, 1]) {
      await rows.nth(at).scrollIntoViewIfNeeded()
      await rows.nth(at).locator('[data-number]').waitFor()
    }
    const [first] = asked
    expect(new Set(asked).size).toBeGreaterThan(2)
    asked.length = 0
    await runUntil(page, () => expect(asked).toContain(first))
    await page.clock.runFor(61_000)
    await waitUntilPasses(() => expect(asked.length).toBeGreaterThan(1))
    // About 20 rows fit on the screen.
    expect(new Set(asked).size).toBeLessThan(3)
    // All numbers are still there.
    expect(await rows.locator('[data-number]').count()).toBe((await rows.count()) - 1)
  })

  it('shows when a key was used last, in the list and beside its record', async () => {
    const { key_id } = await rig.createKey({ name: 'ledger', scopes: ['stats:read'] })
    const { page } = await visit()
    const used = { at: null as number | null }
    await patch(page, /\/api\/v1\/settings\/keys[?]/, ({ keys }) => {
      for (const key of keys) if (key.key_id === key_id) key.last_used_at = used.at
    })
    await page.goto(`${rig.url}/settings/keys?open=${key_id}`)
    const row = page.getByRole('row').filter({ hasText: 'ledger' })
    const usedIn = page
      .getByRole('dialog')
      .getByText('Last used', { exact: true })
      .locator('xpath=following-sibling::dd')
    await usedIn.getByText('Never').waitFor()
    used.at = Date.now()
    await runUntil(page, async () => {
      expect(await usedIn.innerText()).toMatch(/ ago$|^now$/)
      expect(await row.locator('time').innerText()).toMatch(/ ago$|^now$/)
    })
  })

  it('does not ask for the keys while a new one is shown', async () => {
    const { page } = await visit()
    await page.goto(`${rig.url}/settings/keys`)
    await page.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('shown once')
    await page
      .getByRole('dialog')
      .getByRole('button', { name: /^Create/ })
      .click()
    const saved = page.getByRole('button', { name: 'I have saved it' })
    await saved.waitFor()
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await page.clock.runFor(120_000)
    await page.waitForResponse(/\/api\/v1\/session$/)
    expect(asked).not.toContain('/api/v1/settings/keys')
    await saved.click()
    await page.getByRole('row').filter({ hasText: 'shown once' }).waitFor()
    expect(asked).toContain('/api/v1/settings/keys')
  })

  it('shows the next run of a schedule that waits, and the files of its runs', async () => {
    const { export_id: id } = await rig.call<{ export_id: string }>('POST', '/api/v1/exports', {
      site_id: siteId,
      type: 'events',
      format: 'csv',
      name: 'Nightly',
      scheduled: { frequency: 'daily' },
    })
    const service = { nextRun: Date.now() + 3.5 * 3_600_000, runs: [] as object[] }
    // Its first run was long ago.
    const old = (each: Schedule) => {
      if (each.scheduled === null) return
      Object.assign(each, { status: 'completed', created_at: Date.now() - 10 * dayMs })
      each.scheduled.next_run = service.nextRun
    }
    const { page } = await visit()
    await patch(page, /\/api\/v1\/exports[?]/, ({ exports }) => exports.forEach(old))
    await patch(page, /\/api\/v1\/exports\/[^/]+$/, old)
    await patch(page, /\/api\/v1\/.*\/runs[?]/, (data) => {
      data.runs = service.runs
      data.total = service.runs.length
    })
    await page.goto(`${rig.url}/sites/${siteId}/exports`)
    const row = page.getByRole('row').filter({ hasText: 'Nightly' })
    await row.getByText('in 3 hours').waitFor()
    service.nextRun += 24 * 3_600_000
    await runUntil(page, async () => expect(await row.innerText()).toMatch(/tomorrow|in 1 day/))
    await row.getByRole('button').first().click()
    const drawer = page.getByRole('dialog')
    const next = drawer.getByText('Next run', { exact: true }).locator('xpath=following-sibling::dd')
    const before = await next.innerText()
    await drawer.getByText('No run yet.').waitFor()
    service.nextRun += 24 * 3_600_000
    await runUntil(page, async () => expect(await next.innerText()).not.toBe(before))
    service.runs = [
      { export_id: 'run-1', status: 'completed', start_date: null, end_date: Date.now(), rows: 3, bytes: 99 },
    ]
    await runUntil(page, async () => {
      expect(await drawer.getByRole('link', { name: 'Download the run run-1' }).count()).toBe(1)
    })
    // The next page would ask for what is deleted.
    await page.close()
    await rig.call('DELETE', `/api/v1/exports/${id}`)
  })

  it('draws the history of an alert rule until now', async () => {
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      site_id: siteId,
      name: 'Orders',
      condition: { metric: 'event_count', operator: 'less_than', threshold: 1, window: '1h' },
      notification_type: 'slack',
      notification_config: { url: 'http://127.0.0.1:9/' },
    })
    const { page } = await visit()
    const firing = { from: 'ok', to: 'firing', value: 0, firing_id: 'f-1', test: false, notification: null }
    const point = { timestamp: Date.now() - 3_600_000, value: 4 }
    const series = [point]
    await patch(page, /\/api\/v1\/.*\/history[?]/, (data) => {
      data.history = [{ ...firing, timestamp: point.timestamp }]
    })
    await patch(page, /\/api\/v1\/alerts\/preview$/, (data) => {
      data.series = series
      data.firings = []
    })
    await page.goto(`${rig.url}/sites/${siteId}/alerts?open=${id}`)
    const chart = page.getByRole('region', { name: 'History' }).getByRole('img')
    await chart.waitFor()
    const drawn = await chart.innerHTML()
    series.push({ timestamp: Date.now(), value: 9 })
    await runUntil(page, async () => expect(await chart.innerHTML()).not.toBe(drawn))
    const figure = page.getByRole('region', { name: 'History' }).getByRole('figure')
    // The rule was changed after the firing, which ended it.
    for (const text of [/: 9$/, /: 4, fires$/]) {
      await figure.press('ArrowLeft')
      await figure.getByText(text).waitFor()
    }
    await page.close()
    await rig.call('DELETE', `/api/v1/alerts/${id}`)
  })

  it('says that an alert rule is not evaluated, and where its history ends', async () => {
    const { rule_id: id } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', {
      site_id: siteId,
      name: 'Failing',
      condition: { metric: 'event_count', operator: 'less_than', threshold: 1, window: '1h' },
      notification_type: 'slack',
      notification_config: { url: 'http://127.0.0.1:9/' },
    })
    const state = { last_error: null as string | null, last_evaluated_at: Date.now(), updated_at: Date.now() }
    const { page } = await visit()
    await patch(page, /\/api\/v1\/alerts[?]/, ({ alerts }) => {
      for (const rule of alerts) Object.assign(rule, state)
    })
    await patch(page, /\/api\/v1\/.*\/history[?]/, (data) => {
      data.total = 1_500
      data.history = [
        { timestamp: Date.now(), from: 'firing', to: 'ok', value: 1, firing_id: 'f', test: false, notification: null },
      ]
    })
    await page.goto(`${rig.url}/sites/${siteId}/alerts`)
    const row = page.getByRole('row').filter({ hasText: 'Failing' })
    await row.getByText('OK', { exact: true }).waitFor()
    state.last_error = 'The range is too long'
    await runUntil(page, async () => expect(await row.innerText()).toMatch(/Not evaluated/))
    expect(await row.innerText()).not.toMatch(/OK/)
    const before = Date.now() - 3 * 3_600_000
    Object.assign(state, { last_error: null, last_evaluated_at: before, updated_at: before })
    await runUntil(page, async () =>
      expect(await row.innerText()).toMatch(/Not evaluated\s+Last evaluated 3 hours ago/),
    )
    await page.goto(`${rig.url}/sites/${siteId}/alerts?open=${id}`)
    await page.getByText('The newest 1 of 1,500 entries are listed.').waitFor()
    await page.close()
    await rig.call('DELETE', `/api/v1/alerts/${id}`)
  })
})
