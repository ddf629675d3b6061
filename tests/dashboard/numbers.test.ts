import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { Page } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import { compareNumbers, copied, headline, readCsv, runInShell } from './support/numbers.ts'
import { openSession, type Rig } from './support/rig.ts'
import { routesOf } from './support/routes.ts'
import { startSeededRig } from './support/seeded-rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'
import { waitUntilPasses } from './support/wait-until-passes.ts'

const siteId = 'shop'
/** A site with a rule that fires at the first full minute after its events. */
const alarmSiteId = 'alarms'

interface Preview {
  times_fired: number
  step_ms: number
  firings: { from: number; to: number | null; value: number }[]
}

interface History {
  history: { timestamp: number; from: string; to: string; value: number; test: boolean }[]
}

/** A busy machine takes minutes to copy and run the commands of one page. */
const patienceMs = 400_000

describeWithChromium('every number', () => {
  const visitors = useBrowser()
  let rig: Rig
  let ruleId: string

  beforeAll(async () => {
    rig = await startSeededRig(siteId)
    const rule = {
      site_id: alarmSiteId,
      name: 'Alarms',
      condition: { metric: 'event_count', operator: 'greater_than', threshold: 4, window: '5m', event_type: 'alarm' },
      notification_type: 'webhook',
      notification_config: { url: 'http://127.0.0.1:9/' },
    }
    await rig.call('POST', '/api/v1/sites', { site_id: alarmSiteId })
    ruleId = (await rig.call<{ rule_id: string }>('POST', '/api/v1/alerts', rule)).rule_id
    const now = Date.now()
    const alarms = Array.from({ length: 5 }, (_, n) => ({
      site_id: alarmSiteId,
      event_type: 'alarm',
      timestamp: now - n,
      event_id: `alarm-${n}`,
    }))
    await rig.send(alarms)
  })
  afterAll(() => rig.stop())

  const open = async (path: string) => {
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    await page.goto(rig.url + path)
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await page.waitForLoadState('networkidle')
    return page
  }

  /** Pages without numbers of the site's events have none to check. */
  const least: Readonly<Record<string, number>> = { Overview: 30, Live: 2, Events: 3, Funnels: 2, Retention: 6 }

  it.each(Object.entries(routesOf(siteId)))(
    'of the page %s is printed by its curl command and in its CSV',
    async (name, path) => {
      const page = await open(path)
      await waitUntilPasses(async () =>
        expect(await page.locator('[data-number]').count()).toBeGreaterThanOrEqual(least[name] ?? 0),
      )
      // Between the page's question and that of its command, events leave the latest minutes, and rules are evaluated.
      await waitUntilPasses(async () => {
        const { checked, mismatches } = await compareNumbers(page, rig)
        expect(mismatches).toEqual([])
        expect(checked).toBeGreaterThanOrEqual(least[name] ?? 0)
      }, patienceMs)
    },
  )

  it('of the headline is the value that its curl command prints, also under a filter', async () => {
    const page = await open(`/sites/${siteId}?range=7d&f=country:in:DE,FR&f=path:starts_with:/blog`)
    const names = ['Visitors', 'Sessions', 'Events', 'Bounce rate', 'Session duration', 'Conversion rate']
    for (const [place, name] of names.entries()) {
      await waitUntilPasses(async () => expect(await headline(page, name)).not.toBeNaN())
      const value = await headline(page, name)
      const more = page.getByRole('radiogroup').getByRole('button', { name: 'More', exact: true }).nth(place)
      const curl = await copied(page, more, 'Copy curl')
      expect(curl).not.toContain('svc_')
      const printed = (await runInShell(curl, rig.admin)) as { data: { value: number } }
      expect([name, printed.data.value]).toEqual([name, value])
    }
  })

  it('of a panel is in the row of its value, in the curl command and in the CSV', async () => {
    const page = await open(`/sites/${siteId}?range=28d`)
    const panel = page.getByRole('region', { name: 'Countries', exact: true })
    await panel.getByText('Germany', { exact: true }).waitFor()
    const number = panel.getByRole('button', { name: 'Germany' }).locator('[data-number]')
    const german = Number(await number.getAttribute('data-number'))
    const more = panel.getByRole('button', { name: 'More', exact: true })
    const answer = await runInShell(await copied(page, more, 'Copy curl'), rig.admin)
    const { breakdown } = (answer as { data: { breakdown: { key: string; value: number }[] } }).data
    expect(breakdown.find(({ key }) => key === 'DE')?.value).toBe(german)
    const [header = [], ...rows] = readCsv(await copied(page, more, 'Copy CSV'))
    const [key, value] = [header.indexOf('country'), header.indexOf('value')]
    expect(Number(rows.find((row) => row[key] === 'DE')?.[value])).toBe(german)
  })

  it('of a filtered panel too, also of a chosen value that is not among the most frequent ones', async () => {
    const question = new URLSearchParams({
      site_id: siteId,
      metric: 'visitors',
      group_by: 'path',
      start_date: String(Date.now() - 28 * 86_400_000),
      filter: JSON.stringify([{ property: 'country', operator: 'in', value: ['DE', 'FR'] }]),
    })
    const { breakdown } = await rig.call<{ breakdown: { key: string }[] }>(
      'GET',
      `/api/v1/stats?${question.toString()}`,
    )
    const rarest = breakdown.filter(({ key }) => key !== '').at(-1)?.key ?? ''
    const page = await open(`/sites/${siteId}?f=country:in:DE,FR&f=path:equals:${rarest}`)
    const panel = page.getByRole('region', { name: 'Pages', exact: true })
    await panel.getByRole('button', { name: rarest, pressed: true }).waitFor()
    await waitUntilPasses(async () => expect(await panel.locator('[aria-pressed=false]').count()).toBe(8))
    // A panel whose answer comes late moves the menus of the others.
    await waitUntilPasses(async () => {
      const { checked, mismatches } = await compareNumbers(page, rig)
      expect(mismatches).toEqual([])
      expect(checked).toBeGreaterThanOrEqual(30)
    }, patienceMs)
  })

  it.each([
    ['the last 28 days', '28d', `/sites/${siteId}`],
    ['yesterday', 'yesterday', `/sites/${siteId}`],
    ['a funnel of the last 7 days', '7d', `/sites/${siteId}/funnels`],
    ['the events of this month', 'month', `/sites/${siteId}/events`],
  ])('of %s is printed by its curl command with relative dates', async (_, range, path) => {
    const page = await open(`${path}?range=${range}&compare=none&zone=Europe/Berlin`)
    const more = page.locator('main').getByRole('button', { name: 'More', exact: true })
    await more.last().waitFor()
    const kinds = new Set<string>()
    for (const menu of await more.all()) {
      const fixed = await copied(page, menu, 'Copy curl')
      // What names no dates always is of now.
      if (!fixed.includes('start_date')) continue
      const relative = await copied(page, menu, 'Copy curl with relative dates')
      expect(relative).not.toMatch(/_date(=|":)\d/)
      expect(relative).toContain(`TZ='Europe/Berlin'`)
      const printed = await Promise.all([fixed, relative].map((each) => runInShell(each, rig.admin)))
      const [before = '', after] = printed.map((each) => JSON.stringify(each, withoutTimes))
      expect(after).toBe(before)
      kinds.add(/api\/v1\/([a-z]+)/.exec(fixed)?.[1] ?? '')
    }
    expect([...kinds]).toEqual([path.split('/')[3]?.replace(/funnels/, 'funnel') ?? 'stats'])
  })

  it('of the list of sites is what its curl command prints with a key of another environment, too', async () => {
    const { key } = await rig.createKey({ name: 'Developer', scopes: ['stats:read'], environment: 'dev' })
    const page = await open('/')
    const row = page.getByRole('row').filter({ hasText: siteId })
    const more = row.getByRole('button', { name: 'More', exact: true })
    for (const entry of ['Copy curl', 'Copy curl with relative dates']) {
      // Between the two questions, visitors leave the last 24 hours.
      await waitUntilPasses(async () => {
        const shown = Number(await row.locator('[data-number]').first().getAttribute('data-number'))
        expect(shown).toBeGreaterThan(0)
        const printed = (await runInShell(await copied(page, more, entry), key)) as { data: { value: number } }
        expect(printed.data.value).toBe(shown)
      })
    }
  })

  /** The commands of all menus of the page; with `hasFiles` their files, too: the name and the CSV. */
  const taken = async (page: Page, { hasFiles }: { hasFiles: boolean }): Promise<string[]> => {
    const all: string[] = []
    for (const menu of await page.getByRole('main').getByRole('button', { name: 'More', exact: true }).all()) {
      all.push(await copied(page, menu, 'Copy curl'))
      if (!hasFiles) continue
      const downloading = page.waitForEvent('download')
      await menu.click()
      await page.getByRole('button', { name: 'Download CSV', exact: true }).click()
      const download = await downloading
      all.push(download.suggestedFilename(), await readFile(await download.path(), 'utf8'))
    }
    return all
  }

  const goTo = (search: string) => (page: Page) =>
    page.evaluate(`history.pushState(null, '', '${search}'); dispatchEvent(new PopStateEvent('popstate'))`)
  const chooseWeek = (page: Page) => page.keyboard.press('w')

  it.each([
    ['the overview', '?range=yesterday', /\/api\/v1\/stats/, true, chooseWeek],
    ['a funnel', '/funnels?range=yesterday', /\/api\/v1\/funnel/, true, chooseWeek],
    ['the events', '/events?range=yesterday', /\/api\/v1\/events/, true, chooseWeek],
    ['the retention', '/retention', /\/api\/v1\/.*retention/, true, goTo('?weeks=4')],
    // Its minutes pass, and are in its files.
    ['the live page', '/live', /\/api\/v1\/live/, false, goTo('?f=country:equals:DE')],
    [
      'an alert rule',
      '/alerts?open=new',
      /\/alerts\/preview/,
      true,
      (page: Page) => page.getByLabel('Threshold').fill('7'),
    ],
  ] as const)(
    'of %s comes with its own query, dates and rows as long as it stays, until the new one is there',
    async (_, path, asked, hasFiles, change) => {
      const page = await open(`/sites/${siteId}${path}`)
      const more = page.getByRole('main').getByRole('button', { name: 'More', exact: true })
      await more.last().waitFor()
      // Later answers bring more menus.
      await page.locator('main .skeleton').first().waitFor({ state: 'detached' })
      const before = await taken(page, { hasFiles })
      const held = Promise.withResolvers<undefined>()
      await page.route(asked, async (route) => {
        await held.promise
        // One that was given up can't go on.
        await route.fallback().catch(() => undefined)
      })
      const request = page.waitForRequest(asked)
      await change(page)
      await request
      await page.locator('main .old').first().waitFor()
      expect(await taken(page, { hasFiles })).toEqual(before)
      held.resolve(undefined)
      await page.locator('main .old').first().waitFor({ state: 'detached' })
      await waitUntilPasses(async () => expect(before).not.toContain(await copied(page, more.last(), 'Copy curl')))
    },
  )

  it('of the live events that are held back is in no list, while the list is paused', async () => {
    const eventsOf = (kind: string, count: number) =>
      Array.from({ length: count }, (__, n) => ({
        site_id: 'paused',
        event_type: kind,
        timestamp: Date.now() - count + n,
        event_id: `${kind}-${n}`,
        session_id: 'only',
      }))
    await rig.send(eventsOf('listed', 5))
    const page = await open('/sites/paused/live')
    const feed = page.getByRole('region', { name: 'Latest events' })
    await feed.getByText('listed').nth(4).waitFor()
    await feed.getByRole('button', { name: 'Pause' }).click()
    await rig.send(eventsOf('newer', 60))
    await feed.getByText(/50 newer/).waitFor()
    const typesIn = async () => {
      const [header = [], ...rows] = readCsv(
        await copied(page, feed.getByRole('button', { name: 'More', exact: true }), 'Copy CSV'),
      )
      return rows.map((row) => row[header.indexOf('event_type')])
    }
    expect(await typesIn()).toEqual(Array.from({ length: 5 }, () => 'listed'))
    await feed.getByRole('button', { name: 'More', exact: true }).click()
    await page.getByRole('button', { name: 'Show table', exact: true }).click()
    const table = page.getByRole('dialog').getByRole('table')
    await table.getByText('listed').first().waitFor()
    await page.waitForResponse(/\/api\/v1\/live/)
    expect(await table.getByText('newer').count()).toBe(0)
    await page.keyboard.press('Escape')
    await feed.getByRole('button', { name: 'Resume' }).click()
    await waitUntilPasses(async () => {
      expect(await typesIn()).toEqual(Array.from({ length: 50 }, () => 'newer'))
    })
    // A row that was opened keeps the focus, which holds the list as the button does.
    await feed.getByRole('listitem').first().getByRole('button').first().click()
    await feed.getByText('Paused', { exact: true }).waitFor()
    await feed.getByRole('button', { name: 'Resume' }).click()
    await feed.getByText('Running', { exact: true }).waitFor()
  })

  it('of lists come with the times of the site, as the page shows them', async () => {
    const site = { site_id: 'kolkata', timezone: 'Asia/Kolkata' }
    await rig.call('POST', '/api/v1/sites', site)
    const user = `/api/v1/sites/${site.site_id}/erasures`
    const { erasure_id } = await rig.call<{ erasure_id: string }>('POST', user, { user_id: 'nobody' })
    const { export_id } = await rig.call<{ export_id: string }>('POST', '/api/v1/exports', {
      site_id: site.site_id,
      type: 'events',
      format: 'csv',
      name: 'All',
    })
    const { webhook_id } = await rig.call<{ webhook_id: string }>('POST', '/api/v1/webhooks', {
      site_id: site.site_id,
      url: 'http://127.0.0.1:9/',
      events: ['alert'],
    })
    await rig.call('POST', `/api/v1/webhooks/${webhook_id}/test`, {})
    const lists = [
      ['exports', 'main'],
      [`exports?open=${export_id}`, 'dialog'],
      [`webhooks?open=${webhook_id}`, 'dialog'],
      [`settings?erasures=${erasure_id}`, 'main'],
    ] as const
    for (const [path, role] of lists) {
      const page = await open(`/sites/${site.site_id}/${path}`)
      const more = page.getByRole(role).getByRole('button', { name: 'More', exact: true }).last()
      const csv = await copied(page, more, 'Copy CSV')
      const moments = csv.match(/\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)/g) ?? []
      expect([path, moments.length > 0]).toEqual([path, true])
      expect([path, moments.filter((each) => !each.endsWith('+05:30'))]).toEqual([path, []])
    }
  })

  it('can be downloaded as a file named by site, metric, grouping and days', async () => {
    const dayOf = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10)
    const [from, to] = [dayOf(9), dayOf(3)]
    const page = await open(`/sites/${siteId}?range=${from}..${to}`)
    const panel = page.getByRole('region', { name: 'Pages', exact: true })
    await panel.getByRole('button', { name: 'More', exact: true }).click()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download CSV', exact: true }).click(),
    ])
    expect(download.suggestedFilename()).toBe(`shop_visitors_by-path_${from}_${to}.csv`)
  })

  it('of firings in the preview of a rule agrees with when the rule fired', async () => {
    const path = `/api/v1/alerts/${ruleId}/history?limit=50`
    const fired = async () =>
      (await rig.call<History>('GET', path)).history.find(({ to, test }) => to === 'firing' && !test)
    // Rules are evaluated each minute, so that this one has fired before most tests.
    await waitUntil(async () => (await fired()) !== undefined, 'the rule fires')
    const { page } = await visitors.open()
    await openSession(page, rig.url, rig.admin)
    const previewed = page.waitForResponse((response) => response.url().endsWith('/api/v1/alerts/preview'))
    await page.goto(`${rig.url}/sites/${alarmSiteId}/alerts`)
    await page.getByRole('row').filter({ hasText: 'Alarms' }).getByText('Alarms').first().click()
    const { data } = (await (await previewed).json()) as { data: Preview }
    expect(data.times_fired).toBe(1)
    const at = (await fired())?.timestamp ?? 0
    expect(Math.abs((data.firings[0]?.from ?? 0) - at)).toBeLessThanOrEqual(data.step_ms)
    await page.getByText('It would have fired 1 time in 30 days.').first().waitFor()
  })
})

/** An answer without the moments of its request, for `JSON.stringify`. */
function withoutTimes(name: string, value: unknown): unknown {
  return ['timestamp', 'end_date', 'complete_until'].includes(name) && typeof value === 'number' ? undefined : value
}
