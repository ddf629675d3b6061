import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expectedStats, type RawEvent, type RawStatsQuery } from '../support/oracle/expected-stats.ts'
import { launchChromium } from './support/chromium.ts'
import { copied, headline } from './support/numbers.ts'
import { settledHeadline, startOfDay } from './support/overview.ts'
import { coloursAt } from './support/pixels.ts'
import { type Question, watchQuestions } from './support/questions.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { sitePages } from './support/routes.ts'
import { rawEvents, seededEvents, type SentEvent } from './support/seed.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'
const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** The headline numbers with their metrics. */
const headlines = {
  Visitors: 'visitors',
  Sessions: 'unique_sessions',
  Events: 'event_count',
  'Bounce rate': 'bounce_rate',
  'Session duration': 'avg_session_duration',
  'Conversion rate': 'conversion_rate',
} as const

describeWithChromium('the overview', () => {
  const visitors = useBrowser()
  const now = Date.now()
  const events = seededEvents({ siteId, now })
  /** One event each half hour of the day in Berlin on which clocks were put back, 25 hours long. */
  const longDay: SentEvent[] = Array.from({ length: 50 }, (_, n) => ({
    site_id: 'berlin',
    event_type: 'page_view',
    timestamp: Date.UTC(2026, 9, 24, 22) + n * (hourMs / 2),
    event_id: `berlin-${n}`,
    session_id: `s-${n}`,
    url: 'https://example.com/',
  }))
  /** Two events with one id. */
  const twins: SentEvent[] = ['the-newer', 'the-older'].map((user, n) => ({
    site_id: 'twins',
    event_type: 'page_view',
    timestamp: now - 60_000 * n,
    event_id: 'twin',
    user_id: user,
  }))
  /** Eight types of events, the first the most frequent. */
  const kinds: SentEvent[] = Array.from({ length: 8 }, (_, n) =>
    Array.from({ length: 8 - n }, (__, copy) => ({
      site_id: 'kinds',
      event_type: `kind_${n + 1}`,
      timestamp: now - 60_000,
      event_id: `kind-${n}-${copy}`,
      session_id: `s-${n}-${copy}`,
    })),
  ).flat()
  let rig: Rig
  let raw: RawEvent[]

  beforeAll(async () => {
    rig = await startRig()
    raw = rawEvents(events)
    await rig.send(events)
    await rig.send(longDay)
    await rig.send(twins)
    await rig.send(kinds)
  })
  afterAll(() => rig.stop())

  const overview = async (search = '', site = siteId, options: BrowserContextOptions = {}): Promise<Page> => {
    const { page } = await visitors.open(options)
    await openSession(page, rig.url, rig.admin)
    await page.goto(`${rig.url}/sites/${site}${search}`)
    return page
  }

  const oracle = (query: Omit<RawStatsQuery, 'site_id' | 'environment'>, of = raw) =>
    expectedStats(of, { site_id: siteId, environment: 'prod', ...query })

  /** Waits until each headline is what the oracle computes for these parameters. */
  const expectHeadlines = async (page: Page, query: Omit<RawStatsQuery, 'site_id' | 'environment' | 'metric'>) => {
    for (const [name, metric] of Object.entries(headlines)) {
      const { value } = oracle({ ...query, metric })
      await waitUntilPasses(async () => expect([name, await headline(page, name)]).toEqual([name, value]))
    }
  }

  it('has the names by which people and screen readers find everything', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    const navigation = page.getByRole('navigation', { name: 'Main' })
    const links = await navigation.getByRole('link').allInnerTexts()
    expect(links.map((text) => text.trim())).toEqual([...Object.keys(sitePages), 'API Keys'])
    await navigation.getByText('Settings', { exact: true }).waitFor()
    for (const name of ['Time range', 'Compare', 'Time zone']) {
      await page.getByRole('combobox', { name, exact: true }).waitFor()
    }
    await page.getByRole('status', { name: 'Freshness' }).waitFor()
    for (const name of ['Pages', 'Referrers', 'Countries', 'Devices', 'Event types']) {
      const panel = page.getByRole('region', { name, exact: true })
      await panel.scrollIntoViewIfNeeded()
      await panel.getByRole('button', { name: 'More', exact: true }).waitFor()
    }
    for (const name of Object.keys(headlines)) await settledHeadline(page, name)
  })

  it('shows the six numbers of 28 days and of the days before as an oracle counts them', async () => {
    const page = await overview()
    const questions = watchQuestions(page)
    await page.reload()
    await page.getByRole('radio', { name: 'Visitors', exact: true }).waitFor()
    await waitUntilPasses(() => {
      expect(questions.asked().filter(({ group_by }) => group_by === undefined).length).toBeGreaterThanOrEqual(12)
    })
    const [end] = questions
      .asked()
      .map(({ end_date }) => end_date)
      .sort((a, b) => b - a)
    const start = startOfDay(end ?? 0, 'UTC') - 27 * dayMs
    expect(Math.abs((end ?? 0) - Date.now())).toBeLessThan(2 * 60_000)
    await expectHeadlines(page, { start_date: start, end_date: end ?? 0 })
    for (const metric of Object.values(headlines)) {
      expect(questions.asked()).toContainEqual(expect.objectContaining({ metric, start_date: start, end_date: end }))
      expect(questions.asked()).toContainEqual(
        expect.objectContaining({ metric, start_date: start - 28 * dayMs, end_date: (end ?? 0) - 28 * dayMs }),
      )
    }
  })

  it('compares today so far with yesterday until the same time, as an oracle counts both', async () => {
    // A zone in which the day is about 14 hours old, whenever the test runs.
    const offset = 14 - new Date(now).getUTCHours()
    const hours = offset > 14 ? offset - 24 : offset < -12 ? offset + 24 : offset
    const zone = hours === 0 ? 'Etc/GMT' : `Etc/GMT${hours > 0 ? '-' : '+'}${Math.abs(hours)}`
    const page = await overview(`?range=today&zone=${encodeURIComponent(zone)}`)
    const questions = watchQuestions(page)
    await page.reload()
    await waitUntilPasses(() => {
      expect(questions.asked().filter(({ group_by }) => group_by === undefined).length).toBeGreaterThanOrEqual(12)
    })
    const end = Math.max(...questions.asked().map(({ end_date }) => end_date))
    const start = startOfDay(end, zone)
    await expectHeadlines(page, { start_date: start, end_date: end, timezone: zone })
    for (const metric of Object.values(headlines)) {
      await expectChange(page, metric, () => {
        const until = Math.max(...questions.asked().map(({ end_date }) => end_date))
        const [today, yesterday] = [
          { start_date: start, end_date: until },
          { start_date: start - dayMs, end_date: until - dayMs },
        ].map((range) => oracle({ metric, timezone: zone, ...range }).value)
        return { value: today ?? NaN, before: yesterday ?? NaN }
      })
    }
  })

  it('takes yesterday for the day of Kolkata, half an hour apart from other zones', async () => {
    const zone = 'Asia/Kolkata'
    const page = await overview(`?range=yesterday&zone=${encodeURIComponent(zone)}`)
    const end = startOfDay(Date.now(), zone)
    await expectHeadlines(page, { start_date: end - dayMs, end_date: end, timezone: zone })
  })

  it('shows 25 hours of a day on which clocks were put back', async () => {
    const search = '?range=2026-10-25..2026-10-25&zone=Europe/Berlin&by=hour&metric=event_count'
    const page = await overview(search, 'berlin')
    await waitUntilPasses(async () => expect(await headline(page, 'Events')).toBe(50))
    const rows = (await tableOfChart(page)).getByRole('row')
    await waitUntilPasses(async () => expect((await rows.count()) - 1).toBe(25))
  })

  it.each([
    ['Europe/Berlin', ['01:00', '02:00 CEST', '02:00 CET', '03:00']],
    ['UTC', ['01:00 CEST', '02:00 CEST', '02:00 CET', '03:00 CET']],
  ])('names the zone of hours in Berlin where a reader in %s could take them for others', async (timezoneId, hours) => {
    const search = '?range=2026-10-25..2026-10-25&zone=Europe/Berlin&by=hour&metric=event_count'
    const page = await overview(search, 'berlin', { timezoneId })
    const chart = page.getByRole('figure').first()
    await chart.locator('canvas').waitFor()
    await chart.focus()
    await page.keyboard.press('Home')
    for (const hour of hours) {
      await page.keyboard.press('ArrowRight')
      await waitUntilPasses(async () => {
        const tip = await chart.locator('.chart-tip p').first().innerText()
        expect(tip).toMatch(new RegExp(`Sun,? 25 Oct, ${hour}\\s+2$`))
      })
    }
  })

  it('names the zone of the times in tables, where it is not the browser’s', async () => {
    const page = await overview('/events?zone=Asia/Kolkata', siteId)
    const time = page.getByRole('row').locator('time').first()
    expect(await time.innerText()).toMatch(/, \d\d:\d\d:\d\d GMT\+5:30$/)
    await page.goto(`${rig.url}/sites/${siteId}/events?zone=UTC`)
    expect(await time.innerText()).toMatch(/, \d\d:\d\d:\d\d$/)
  })

  it('takes a click on the month that is not over for its days until today', async () => {
    const page = await overview('?range=12mo&compare=none')
    const chart = page.getByRole('figure').first()
    await chart.locator('canvas').waitFor()
    await chart.focus()
    await page.keyboard.press('End')
    await page.keyboard.press('Enter')
    await page.waitForURL((url) => /^\d{4}-\d\d-\d\d\.\./.test(url.searchParams.get('range') ?? ''))
    const today = new Date().toISOString().slice(0, 10)
    expect(new URL(page.url()).searchParams.get('range')).toBe(`${today.slice(0, 7)}-01..${today}`)
  })

  it('takes a click beside a point of the chart for the day of that point', async () => {
    const page = await overview()
    const plot = page.getByRole('figure').first().locator('.u-over')
    await plot.click({ position: { x: 5, y: 20 } })
    await page.waitForURL((url) => url.searchParams.has('range'))
    const first = new Date(Date.now() - 27 * dayMs).toISOString().slice(0, 10)
    expect(new URL(page.url()).searchParams.get('range')).toBe(`${first}..${first}`)
  })

  it('shows a value of the chart at the first tap of a finger, and takes the second one for its day', async () => {
    const page = await overview('', siteId, { hasTouch: true, viewport: { width: 390, height: 844 } })
    const chart = page.getByRole('figure').first()
    const plot = chart.locator('.u-over')
    const address = page.url()
    await plot.tap()
    await chart.locator('.chart-tip').waitFor()
    expect(page.url()).toBe(address)
    await plot.tap()
    await page.waitForURL((url) => /^\d{4}-\d\d-\d\d/.test(url.searchParams.get('range') ?? ''))
  })

  it('offers all rows of a panel whose last ones a narrow page leaves out', async () => {
    const page = await overview('', 'kinds', { viewport: { width: 390, height: 844 } })
    const panel = page.getByRole('region', { name: 'Event types', exact: true })
    await panel.getByText('kind_1').waitFor()
    expect(await panel.getByText('kind_8').isVisible()).toBe(false)
    await panel.getByRole('button', { name: 'All' }).click()
    await page.getByRole('dialog').getByText('kind_8').waitFor()
  })

  it('begins with the newest events when another range is chosen, and finds the older page by Back', async () => {
    const page = await overview('/events?range=28d')
    const before = () => new URL(page.url()).searchParams.get('before')
    const rows = page.getByRole('table', { name: 'What was sent' }).getByRole('row')
    await page.getByRole('button', { name: 'Older' }).click()
    await waitUntilPasses(() => expect(before()).not.toBeNull())
    await page.getByRole('button', { name: 'Newest' }).waitFor()
    const older = before()
    await page.keyboard.press('w')
    await waitUntilPasses(async () => {
      expect(new URL(page.url()).searchParams.get('range')).toBe('7d')
      expect(before()).toBeNull()
      expect(await rows.count()).toBeGreaterThan(1)
    })
    await page.goBack()
    await waitUntilPasses(async () => {
      expect(before()).toBe(older)
      await page.getByRole('button', { name: 'Newest' }).waitFor()
    })
  })

  it('opens an event by a click on any cell of its row', async () => {
    const page = await overview('/events?range=28d', 'kinds')
    const row = page.getByRole('table', { name: 'What was sent' }).getByRole('row').nth(1)
    await row.getByRole('cell').nth(1).click()
    await page.getByRole('dialog').waitFor()
  })

  it('compares no rate and no duration with a range without a session', async () => {
    const page = await overview('?range=28d', 'kinds')
    const text = (name: string) => page.getByRole('radio', { name, exact: true }).textContent()
    await waitUntilPasses(async () => {
      expect(await text('Sessions')).toContain('before: 0')
      expect(await text('Bounce rate')).toContain('%')
    })
    for (const name of ['Bounce rate', 'Session duration', 'Conversion rate'])
      expect(await text(name)).not.toContain('before')
    await page.getByRole('radio', { name: 'Conversion rate', exact: true }).click()
    await page
      .getByText(/^Conversion rate \(purchase\), last 28 days/)
      .first()
      .waitFor()
  })

  it('compares no rate and no duration of a range without a session', async () => {
    const day = (days: number) => new Date(now - days * dayMs).toISOString().slice(0, 10)
    const page = await overview(`?range=${day(9)}..${day(3)}&compare=${day(0)}..${day(0)}`, 'kinds')
    const text = (name: string) => page.getByRole('radio', { name, exact: true }).textContent()
    await waitUntilPasses(async () => {
      expect(await text('Sessions')).toMatch(/before: \d/)
      expect(await text('Bounce rate')).toContain('%')
    })
    for (const name of ['Bounce rate', 'Session duration', 'Conversion rate'])
      expect(await text(name)).not.toContain('before')
  })

  it('says of the first week of a chart that it is cut, and of the last one that it still counts', async () => {
    const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)
    const today = Date.now()
    // A Tuesday.
    const first = today - (21 + ((new Date(today).getUTCDay() + 5) % 7)) * dayMs
    const page = await overview(`?range=${dayOf(first)}..${dayOf(today)}&by=week&compare=none`)
    const chart = page.getByRole('figure').first()
    await chart.locator('canvas').waitFor()
    await chart.focus()
    const notes = { Home: 'part of the range only', End: 'still counting' }
    for (const [key, note] of Object.entries(notes)) {
      await page.keyboard.press(key)
      await chart.locator('.chart-tip').getByText(note).waitFor()
    }
  })

  it('has the title of the page spoken that the navigation or a key opens', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    // What was announced just before may precede the title.
    const spoken = page.locator('.announcer').first()
    await page.getByRole('link', { name: 'Funnels', exact: true }).first().click()
    await spoken.getByText(/Funnels · .* · Sluice/).waitFor({ state: 'attached' })
    await page.keyboard.press('g')
    await page.keyboard.press('l')
    await spoken.getByText(/Live · .* · Sluice/).waitFor({ state: 'attached' })
  })

  it('has the title of the next page spoken after what was done, without taking its place', async () => {
    const page = await overview('/settings')
    await page.route(/\/api\/v1\/sites\/shop$/, (route) =>
      route.request().method() === 'DELETE'
        ? route.fulfill({
            status: 202,
            json: { success: true, data: { erasure_id: 'era_1', status: 'queued' }, timestamp: Date.now() },
          })
        : route.fallback(),
    )
    await page.getByRole('button', { name: 'Delete site' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('textbox').fill(siteId)
    await dialog.getByRole('button', { name: 'Delete site' }).click()
    await dialog.getByRole('button', { name: 'I have saved it' }).click()
    const spoken = page.locator('.announcer').first()
    await spoken.getByText(/ is being deleted\b.* · Sluice/).waitFor({ state: 'attached' })
  })

  it('opens of two events with one id the one that was pressed, and keeps it when the list goes on without it', async () => {
    const page = await overview('/events', 'twins')
    const rows = page.getByRole('table', { name: 'What was sent' }).getByRole('button')
    const drawer = page.getByRole('dialog')
    await rows.nth(1).click()
    await drawer.getByText('the-older').waitFor()
    const link = page.url()
    await drawer.getByRole('button', { name: 'the-older' }).click({ modifiers: ['Alt'] })
    await page.waitForURL(/f=user_id/)
    await waitUntilPasses(async () => expect(await rows.count()).toBe(1))
    await drawer.getByText('the-older').waitFor()
    await page.keyboard.press('Escape')
    await drawer.waitFor({ state: 'detached' })
    expect(new URL(page.url()).searchParams.has('event')).toBe(false)

    // Yesterday there were none.
    await page.goto(`${link}&range=yesterday`)
    await drawer.getByText('the-older').waitFor()
    await page.goto(link.replace(':twin', ':nobody'))
    await drawer.getByText('This event is not stored').waitFor()
  })

  it('draws the chart without a comparison that has too many hours', async () => {
    const page = await overview('?range=7d&compare=2025-01-01..2025-12-31&by=hour')
    await page.getByRole('figure').first().locator('canvas').waitFor()
    const chart = page.getByRole('region', { name: 'Visitors', exact: true })
    expect(await chart.getByRole('alert').count()).toBe(0)
    expect(await chart.locator('.chart-legend bdi').count()).toBe(1)
    await chart.getByText('not compared: too long for this interval').waitFor()
  })

  it('draws the chart and says why its comparison is missing when that alone has failed', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    await page.route(/\/api\/v1\/stats\/batch$/, async (route) => {
      const { queries } = route.request().postDataJSON() as { queries: Question[] }
      if (queries[0]?.group_by !== 'day') {
        await route.fallback()
        return
      }
      const response = await route.fetch()
      const answer = (await response.json()) as { data: { results: unknown[] } }
      answer.data.results[1] = { success: false, status: 400, error: 'The comparison is refused' }
      await route.fulfill({ response, json: answer })
    })
    await page.reload()
    const chart = page.getByRole('region', { name: 'Visitors', exact: true })
    await chart.getByRole('alert').getByText('The comparison is refused').waitFor()
    await chart.getByRole('figure').locator('canvas').waitFor()
  })

  it('is estimated again by the button beside “Counted exactly.”', async () => {
    const page = await overview('?range=7d&exact=true')
    const questions = watchQuestions(page)
    await page.reload()
    await settledHeadline(page, 'Visitors')
    expect(questions.asked().length).toBeGreaterThan(0)
    expect(questions.asked().every(({ exact }) => exact === true || exact === 'true')).toBe(true)
    await page.getByText('Counted exactly.').waitFor()
    // The questions of the last panels may still be on their way.
    await page.waitForLoadState('networkidle')
    questions.forget()
    await page.getByRole('button', { name: 'Estimate again' }).click()
    await page.waitForURL(`${rig.url}/sites/${siteId}?range=7d`)
    await page.getByText('Counted exactly.').waitFor({ state: 'detached' })
    await waitUntilPasses(() => expect(questions.asked().length).toBeGreaterThan(0))
    expect(questions.asked().filter(({ exact }) => exact !== undefined)).toEqual([])
  })

  it('copies a link of fixed days that compares them with the days of the view', async () => {
    const page = await overview()
    const questions = watchQuestions(page)
    await page.reload()
    const comparedDays = async () => {
      await waitUntilPasses(() => {
        expect(new Set(questions.asked().map(({ start_date }) => start_date)).size).toBe(2)
      })
      const from = Math.min(...questions.asked().map(({ start_date }) => start_date))
      return { from, to: questions.asked().findLast(({ start_date }) => start_date === from)?.end_date ?? NaN }
    }
    const { from, to } = await comparedDays()
    const link = await copied(page, page.getByRole('button', { name: 'Share' }), 'Copy fixed link')
    await page.goto('about:blank')
    questions.forget()
    await page.goto(link)
    const fixed = await comparedDays()
    expect(fixed.from).toBe(from)
    // An address has no seconds.
    expect(Math.abs(fixed.to - to)).toBeLessThan(2 * 60_000)
  })

  it('names the environment in copied links, because another key may be of another one', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    const share = page.getByRole('button', { name: 'Share' })
    const more = page.getByRole('region', { name: 'Visitors', exact: true }).getByRole('button', { name: /^More/ })
    for (const link of [
      await copied(page, share, 'Copy moving link'),
      await copied(page, share, 'Copy fixed link'),
      await copied(page, more, 'Copy link'),
    ]) {
      expect(new URL(link).searchParams.getAll('env')).toEqual(['prod'])
    }
    expect(page.url()).not.toContain('env=')
    // Another environment, or another day, may have other frequent events.
    await page.goto(`${rig.url}/sites/${siteId}/funnels`)
    const menu = page.getByRole('main').getByRole('button', { name: 'More', exact: true }).first()
    const { searchParams } = new URL(await copied(page, menu, 'Copy link'))
    expect(Object.fromEntries(searchParams)).toEqual({ steps: 'page_view>click>signup', env: 'prod' })
  })

  it('makes an export that repeats whatever days were entered before', async () => {
    const page = await overview('/exports')
    await page.getByRole('button', { name: 'New export' }).first().click()
    const form = page.getByRole('dialog', { name: 'New export' })
    await form.getByLabel('From').fill('2026-11-09')
    await form.getByLabel('To', { exact: true }).fill('2026-11-01')
    await form.getByRole('button', { name: 'Export', exact: true }).click()
    await form.getByText('The first day can’t be after the last.').waitFor()
    await form.getByLabel('Repeat').selectOption('daily')
    const nextRun = Math.floor((Date.now() + dayMs) / 60_000) * 60_000
    await form.getByLabel(/^Next run/).fill(new Date(nextRun).toISOString().slice(0, 16))
    await form.getByRole('button', { name: 'Export', exact: true }).click()
    await form.waitFor({ state: 'detached' })
    const { exports: all } = await rig.call<{ exports: { export_id: string; scheduled: unknown }[] }>(
      'GET',
      `/api/v1/exports?site_id=${siteId}`,
    )
    expect(all).toMatchObject([{ scheduled: { frequency: 'daily', next_run: nextRun } }])
    // The page shows the export that was made, and would ask for it once more.
    await page.close()
    await rig.call('DELETE', `/api/v1/exports/${all[0]?.export_id ?? ''}`)
  })

  it('has the end of an export spoken while it is looked at', async () => {
    const body = { site_id: siteId, type: 'events', format: 'csv', name: 'Spoken' }
    const { export_id: id } = await rig.call<{ export_id: string }>('POST', '/api/v1/exports', body)
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    let status = 'processing'
    await page.route(`**/api/v1/exports/${id}`, async (route) => {
      const answer = (await (await route.fetch()).json()) as { data: object }
      await route.fulfill({ json: { ...answer, data: { ...answer.data, status } } })
    })
    await page.goto(`${rig.url}/sites/${siteId}/exports?open=${id}`)
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Processing').waitFor()
    status = 'completed'
    await waitUntilPasses(async () => expect(await dialog.locator('.announcer').textContent()).toBe('Completed'))
    await page.close()
    await rig.call('DELETE', `/api/v1/exports/${id}`)
  })

  it('keeps in the address that countries are a map, and copies a command with the whole address', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    await page.getByRole('combobox', { name: 'Show countries as' }).selectOption('Map')
    await page.locator('.world-map').waitFor()
    expect(new URL(page.url()).searchParams.get('countries')).toBe('map')
    await page.reload()
    await page.locator('.world-map').waitFor()
    const more = page.getByRole('button', { name: 'More', exact: true }).first()
    expect(await copied(page, more, 'Copy curl')).toContain(`curl -sS '${rig.url}/api/v1/stats?`)
  })

  it('is printed without controls, and shows what colours mean where a theme replaces them', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    const fill = page.locator('.bar-fill').first()
    await fill.waitFor()
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    const sheet = `getComputedStyle(document.querySelector('.sheet')).backgroundColor`
    expect(await page.evaluate(sheet)).toBe('rgb(255, 255, 255)')
    expect(await page.locator(':is(.rail, .sticky-bar, .bottom-bar, .button):visible').count()).toBe(0)
    expect(await fill.isVisible()).toBe(true)
    await page.emulateMedia({ media: 'screen', forcedColors: 'active' })
    const borders = await page.evaluate<string[]>(
      `[...document.querySelectorAll('.headline > [role=radio]')].map((each) => getComputedStyle(each).borderBottomColor)`,
    )
    expect([borders.length, new Set(borders.slice(1)).size, new Set(borders).size]).toEqual([6, 1, 2])
    expect(await page.evaluate(`getComputedStyle(document.querySelector('.bar-fill')).backgroundColor`)).not.toBe(
      await page.evaluate(sheet),
    )
  })

  it('draws a dashed line around weeks that are in progress, and a ring while it is unknown how fresh numbers are', async () => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const styleOf = (selector: string, property: string) =>
      page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).${property}`)
    await page.goto(`${rig.url}/sites/${siteId}/retention?of=visitor`)
    await page.locator('td.in-progress').first().waitFor()
    for (const forcedColors of ['none', 'active'] as const) {
      await page.emulateMedia({ forcedColors })
      for (const selector of ['td.in-progress', '.swatch.in-progress']) {
        expect(await styleOf(selector, 'outlineStyle')).toBe('dashed')
        expect(await styleOf(selector, 'outlineColor')).toBe(await styleOf('td.in-progress', 'color'))
      }
    }
    await page.emulateMedia({ forcedColors: 'none' })
    await page.locator('.freshness.quiet').waitFor()
    const fill = () => styleOf('.freshness .dot', 'backgroundColor')
    expect(await fill()).not.toBe('rgba(0, 0, 0, 0)')
    // The first request for the freshness comes later than the page.
    await page.route(/\/api\/v1\/stats\?/, () => undefined)
    await page.reload()
    await page.locator('.freshness.unknown').waitFor()
    expect(await fill()).toBe('rgba(0, 0, 0, 0)')
    expect(await styleOf('.freshness .dot', 'borderTopStyle')).toBe('solid')
  })

  it('calls a week of the retention pressed that stays, and not one that the focus is on', async () => {
    const page = await overview('/retention?of=visitor')
    const week = page.getByRole('table', { name: 'Retention by week' }).getByRole('button').first()
    await week.focus()
    // Its curve is drawn meanwhile.
    await page.locator('tr.open').waitFor()
    expect(await week.getAttribute('aria-pressed')).toBe('false')
    await page.keyboard.press('Enter')
    await waitUntilPasses(async () => expect(await week.getAttribute('aria-pressed')).toBe('true'))
  })

  it('says above the retention that deleted events make visitors new, where the site has a limit', async () => {
    const page = await overview('/retention?of=visitor&weeks=4', 'kinds')
    const table = page.getByRole('table', { name: 'Retention by week' })
    const note = page.getByText('A visitor whose earlier events were deleted counts as new')
    const keep = async (days: number | null) => {
      await rig.call('PUT', '/api/v1/sites/kinds', { retention_days: days })
      await page.reload()
      await table.waitFor()
      return note.count()
    }
    expect([await keep(null), await keep(29), await keep(14)]).toEqual([0, 1, 1])
    await page.getByText('This site keeps events for 14 days.').waitFor()
    await keep(null)
  })

  it('says “1 visitor” of a step of a funnel, and of what was lost before it', async () => {
    const page = await overview('/funnels?steps=kind_8%3Ekind_7', 'kinds')
    const steps = page.getByRole('list', { name: 'Steps' }).getByRole('listitem')
    await steps.first().getByText('1 visitor', { exact: true }).waitFor()
    await steps.nth(1).getByText('0 visitors', { exact: true }).waitFor()
    await steps
      .nth(1)
      .getByText(/^1 visitor \(100.*went no further$/)
      .waitFor()
  })

  it('shows a message above the dialog that is opened after it', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    await copied(page, page.getByRole('button', { name: 'More', exact: true }).first(), 'Copy curl')
    // What is opened later is above in the top layer.
    await page.evaluate(`document.addEventListener('beforetoggle', ({ target, newState }) => {
      if (newState === 'open') (globalThis.opened ??= []).push(target.className)
    }, true)`)
    await page.keyboard.press('?')
    await page.getByRole('dialog').waitFor()
    expect(await page.evaluate('globalThis.opened.at(-1)')).toBe('toast')
  })

  it('keeps its place while it is filtered, and leads to pages that begin at their top', async () => {
    const { page } = await visitors.open({ viewport: { width: 1280, height: 500 } })
    await openSession(page, rig.url, rig.admin)
    const sent = page.getByRole('table', { name: 'What was sent' })
    // Once it was asked, this page is as high as it will be at once.
    await page.goto(`${rig.url}/sites/${siteId}/events`)
    await sent.waitFor()
    await page.getByRole('link', { name: 'Overview' }).click()
    const row = page.getByRole('region', { name: 'Countries' }).getByRole('button', { name: 'Germany' })
    await row.scrollIntoViewIfNeeded()
    const place = () => page.evaluate<number>('scrollY')
    expect(await place()).toBeGreaterThan(100)
    await row.click()
    await page.waitForURL(/f=country/)
    const remove = page.getByRole('button', { name: /^Remove filter/ })
    await remove.waitFor()
    expect(await place()).toBeGreaterThan(100)
    await row.click()
    await remove.waitFor({ state: 'detached' })
    expect(await place()).toBeGreaterThan(100)
    await page.getByRole('link', { name: 'Events', exact: true }).click()
    await sent.waitFor()
    expect(await place()).toBe(0)
  })

  it('has no strip beside a drawer or a backdrop where the scroll bar stood, and moves nothing', async () => {
    const browser = await launchChromium({ hasScrollBars: true })
    try {
      const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, colorScheme: 'light' })
      await openSession(page, rig.url, rig.admin)
      await page.goto(`${rig.url}/sites/${siteId}/events`)
      const row = page.getByRole('table', { name: 'What was sent' }).getByRole('button').first()
      await row.waitFor()
      await page.waitForLoadState('networkidle')
      const gap = () => page.evaluate<number>('innerWidth - document.documentElement.clientWidth')
      expect(await gap()).toBeGreaterThan(10)
      const place = await row.boundingBox()
      await row.click()
      await page.getByRole('dialog').waitFor()
      expect(await row.boundingBox()).toEqual(place)
      const [drawer, beside] = await coloursAt(page, [
        [1300, 880],
        [1395, 880],
      ])
      expect(beside).toBe(drawer)
      await page.keyboard.press('Escape')
      await page.keyboard.press('?')
      await page.getByRole('dialog').waitFor()
      const [backdrop, besideIt] = await coloursAt(page, [
        [1370, 880],
        [1395, 880],
      ])
      expect(besideIt).toBe(backdrop)
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      // A page that has room in the window has nothing to scroll.
      await page.goto(`${rig.url}/settings/keys`)
      await page.getByRole('row').first().waitFor()
      expect(await page.evaluate('document.documentElement.scrollHeight')).toBe(900)
    } finally {
      await browser.close()
    }
  })

  it('closes a drawer by a press beside it, and not by one on its own empty part', async () => {
    const page = await overview('/events')
    await page.getByRole('table', { name: 'What was sent' }).getByRole('button').first().click()
    const drawer = page.getByRole('dialog')
    await drawer.getByRole('button', { name: 'Copy JSON' }).waitFor()
    await page.setViewportSize({ width: 1280, height: 2_000 })
    await page.mouse.click(1_000, 1_990)
    await page.mouse.click(1_000, 1_000)
    expect(await drawer.count()).toBe(1)
    await page.mouse.click(100, 1_990)
    await drawer.waitFor({ state: 'detached' })
  })

  it('has what is copied in a dialog spoken there, because the rest of the page is silent, and once', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    await page.getByRole('button', { name: 'Share' }).click()
    await page.getByRole('button', { name: 'Create a guest link' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: /^Create/ }).click()
    await dialog.getByText(/#key=svc_/).waitFor()
    await dialog.getByRole('button', { name: 'Copy', exact: true }).click()
    const spoken = () => page.locator('[aria-live="polite"]').allTextContents()
    await waitUntilPasses(async () => expect(await spoken()).toEqual(['Link copied', '']))
    await dialog.getByRole('button', { name: 'I have saved it' }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await spoken()).toEqual([''])
  })

  it('makes no guest link when its dialog is cancelled', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    await page.getByRole('button', { name: 'Share' }).click()
    await page.getByRole('button', { name: 'Create a guest link' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await dialog.waitFor({ state: 'detached' })
  })

  it('says on a narrow page how many settings its numbers depend on', async () => {
    const page = await overview('?f=country:equals:DE&env=dev')
    await page.setViewportSize({ width: 375, height: 812 })
    await page.getByRole('button', { name: 'View (2)' }).click()
    expect(await page.getByRole('dialog').getByRole('combobox', { name: 'Environment' }).inputValue()).toBe('dev')
  })

  it('shows a message above the bottom bar of a narrow page', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    await page.setViewportSize({ width: 375, height: 812 })
    await copied(page, page.getByRole('button', { name: 'More', exact: true }).first(), 'Copy curl')
    const toast = await page.locator('.toast:popover-open').boundingBox()
    const bar = await page.locator('.bottom-bar').boundingBox()
    expect((toast?.y ?? NaN) + (toast?.height ?? NaN)).toBeLessThan(bar?.y ?? NaN)
  })

  it('asks for JavaScript, within the window, where scripts are off', async () => {
    const { page } = await visitors.open({ javaScriptEnabled: false })
    await page.goto(rig.url)
    const notice = await page.locator('noscript .notice').boundingBox()
    expect(notice?.y).toBeLessThan(100)
  })

  it('names the browsers that it needs where the browser is an older one', async () => {
    const { page } = await visitors.open()
    await page.addInitScript('delete HTMLElement.prototype.showPopover')
    await page.goto(rig.url)
    await page.getByRole('alert').getByText('Chrome 120, Firefox 125 or Safari 17').waitFor()
    expect(await page.getByLabel('API key').count()).toBe(0)
  })

  it('takes the metric and the filters along to a new alert rule', async () => {
    const page = await overview('?f=country:equals:DE')
    await settledHeadline(page, 'Events')
    const events = page.locator('[data-menu]').filter({ has: page.getByRole('radio', { name: 'Events', exact: true }) })
    await events.hover()
    await events.getByRole('button', { name: 'More', exact: true }).click()
    await page.getByRole('link', { name: 'Alert on this' }).click()
    await page.getByRole('button', { name: 'Remove filter: country is Germany' }).waitFor()
    expect(await page.getByLabel('Metric', { exact: true }).inputValue()).toBe('event_count')
    // The rule will be of the key's environment.
    await page
      .locator('main')
      .getByText(/events of the environment Production count/)
      .waitFor()
  })

  it('offers no alert rule on numbers of an environment that is not the key’s', async () => {
    const entries = async (search: string) => {
      const page = await overview(search)
      await settledHeadline(page, 'Events')
      await page.getByRole('radiogroup').getByRole('button', { name: 'More', exact: true }).first().click()
      await page.getByRole('button', { name: 'Copy curl', exact: true }).waitFor()
      return page.getByRole('link', { name: 'Alert on this' }).count()
    }
    expect(await entries('?env=dev')).toBe(0)
    expect(await entries('?env=all')).toBe(0)
    expect(await entries('?env=prod')).toBe(1)
  })

  it('previews a rule on the events of its environment, which is not the session’s', async () => {
    const { key } = await rig.createKey({ name: 'Developer', scopes: ['admin'], environment: 'dev' })
    const rule = {
      site_id: siteId,
      name: 'Developed',
      condition: { metric: 'event_count', operator: 'greater_than', threshold: 4, window: '5m' },
      enabled: false,
      notification_type: 'webhook',
      notification_config: { url: 'http://127.0.0.1:9/' },
    }
    const { rule_id: ruleId } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', rule, key)
    const page = await overview()
    const previewed = page.waitForRequest(/\/api\/v1\/alerts\/preview$/)
    await page.goto(`${rig.url}/sites/${siteId}/alerts?open=${ruleId}`)
    await page.getByText(/events of the environment Development count/).waitFor()
    expect((await previewed).postDataJSON()).toMatchObject({ environment: 'dev' })
  })

  it('has yes and no in the table of a preview, as the file of it has', async () => {
    const rule = {
      site_id: siteId,
      name: 'Tabled',
      condition: { metric: 'event_count', operator: 'greater_than', threshold: 0, window: '1h' },
      enabled: false,
      notification_type: 'webhook',
      notification_config: { url: 'http://127.0.0.1:9/' },
    }
    const { rule_id: ruleId } = await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', rule)
    const page = await overview(`/alerts?open=${ruleId}`)
    await page.locator('.alert-preview').getByRole('button', { name: /^More/ }).click()
    await page.getByRole('button', { name: 'Show table', exact: true }).click()
    await page.getByRole('cell', { name: 'true', exact: true }).first().waitFor()
    await page.getByRole('cell', { name: 'false', exact: true }).first().waitFor()
  })

  it('gives up the questions of ranges that were left, and shows the last one', async () => {
    const page = await overview()
    await settledHeadline(page, 'Visitors')
    const questions = watchQuestions(page)
    // Those of the first range wait for their answers until the last one is chosen.
    const chosen = Promise.withResolvers<undefined>()
    await page.route(/\/api\/v1\/stats\/batch$/, async (route) => {
      await chosen.promise
      // One that was given up can't go on.
      await route.fallback().catch(() => undefined)
    })
    const asked = page.waitForRequest(/\/api\/v1\/stats\/batch$/)
    await page.keyboard.press('w')
    await asked
    for (const key of ['n', 'm', 'y', 'f', 'e']) await page.keyboard.press(key)
    await waitUntilPasses(() => expect(new URL(page.url()).searchParams.get('range')).toBe('yesterday'))
    chosen.resolve(undefined)
    const end = startOfDay(Date.now(), 'UTC')
    await expectHeadlines(page, { start_date: end - dayMs, end_date: end })
    expect(questions.aborted()).toBeGreaterThan(0)
  })

  it('puts one decision into the history as one entry', async () => {
    const page = await overview()
    await settledHeadline(page, 'Events')
    const entries = () => page.evaluate<number>('history.length')
    const before = await entries()
    await page.keyboard.press('w')
    await page.waitForURL(/range=7d/)
    await page.keyboard.press('d')
    await page.waitForURL(/range=today/)
    expect((await entries()) - before).toBe(2)
    await page.goBack()
    await page.waitForURL(/range=7d/)
  })

  it.each([
    ['an unknown range', '?range=fortnight', /fortnight/],
    ['an unknown metric', '?metric=happiness', /happiness/],
    ['a filter that is none', '?f=colour~blue', /colour~blue/],
    ['an unknown time zone', '?zone=Mars/Olympus', /Mars\/Olympus/],
    ['days in the wrong order', '?range=2026-11-09..2026-11-01', /2026-11-09/],
  ])('names %s in the address, and shows everything else', async (_, search, pattern) => {
    const page = await overview(search)
    await page.getByText(pattern).first().waitFor()
    expect(await settledHeadline(page, 'Events')).toBeGreaterThan(0)
  })

  it.each([
    ['a site that is unknown', '/sites/nowhere', /nowhere/],
    ['a page that is unknown', `/sites/${siteId}/astrology`, /no such page/i],
    ['a page outside of sites', '/settings/astrology', /no such page/i],
  ])('says of %s that there is none, and leads back', async (_, path, pattern) => {
    const { page, expectMessages } = await visitors.open()
    expectMessages(/status of 404/)
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url + path)
    await page.getByText(pattern).first().waitFor()
    await page.getByRole('navigation', { name: 'Main' }).waitFor()
    await page.getByRole('link', { name: 'See all sites' }).click()
    await page.waitForURL(`${rig.url}/`)
  })
})

/** Opens the table of the chart by the key of the shortcut. */
async function tableOfChart(page: Page): Promise<Locator> {
  await page.getByRole('figure').first().focus()
  await page.keyboard.press('t')
  return page.getByRole('table').first()
}

/** The change that a headline shows: in points for rates, else in percent. */
/** `expected` is called again at each look, because the page goes on to the next minute by itself. */
async function expectChange(page: Page, metric: string, expected: () => { value: number; before: number }) {
  const [name = ''] = Object.entries(headlines).find(([, each]) => each === metric) ?? []
  const radio = page.getByRole('radio', { name, exact: true })
  await waitUntilPasses(async () => {
    const { value, before } = expected()
    const change = metric.endsWith('_rate') ? value - before : ((value - before) / before) * 100
    const amount = Math.abs(change)
    const words = amount < 0.05 ? 'no change' : before === 0 && !metric.endsWith('_rate') ? 'new' : undefined
    const text = (await radio.locator('.change').textContent()) ?? ''
    if (words !== undefined) {
      expect(text).toBe(words)
      return
    }
    const shown = Number(/[\d.,]+/.exec(text)?.[0].replaceAll(',', ''))
    // One digit after the point, none from 1,000 on; a half may be rounded either way.
    expect(Math.abs(shown - amount)).toBeLessThanOrEqual(amount < 1_000 ? 0.0501 : 0.501)
  })
}
