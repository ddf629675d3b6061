import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { launchChromium } from '../tests/dashboard/support/chromium.ts'
import { gzipBytes, measured, slowDown, startMeasuring } from '../tests/dashboard/support/measure.ts'
import { openSession } from '../tests/dashboard/support/rig.ts'
import { startService } from '../tests/support/service-process.ts'
import { startClickHouseRig } from './clickhouse-rig.ts'
import { fillEvents } from './fill-events.ts'
import { median, rounded } from './report.ts'

/** BENCH_EVENTS=100000 for a quick look. */
const events = Number(process.env.BENCH_EVENTS ?? 1_000_000)
/** The overview shows 28 days and compares them with the 28 before. */
const days = 56
const rounds = 5
const siteId = 'shop'

type Browser = Awaited<ReturnType<typeof launchChromium>>
type Page = Awaited<ReturnType<Browser['newPage']>>

interface Round {
  first_paint_ms: number
  first_number_ms: number
  requests_to_first_number: number
  cls: number
  inp_ms: number
  kilobytes_gzip: number
}

/**
 * The first visit of a site's overview by a browser with an empty cache, four times slower than this machine and with
 * 10 Mbit/s: what it loads, when the first paint and the first number appear, and how fast the page reacts to keys and
 * clicks.
 */
export async function dashboard(): Promise<object> {
  const dir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const store = await startClickHouseRig(join(dir, 'clickhouse'))
  const { clickHouse, url } = await store.database('sluice')
  const sluice = await startService('standalone', {
    SLUICE_DATA_DIR: join(dir, 'data'),
    SLUICE_CLICKHOUSE_URL: url,
  })
  const browser = await launchChromium({ isComplete: true })
  try {
    const key = /svc_prod_\w{34}/.exec(sluice.output())?.[0] ?? ''
    await registerSite(sluice.url, key)
    await fillEvents(clickHouse, { site: siteId, events, end: Date.now(), days })
    await store.settle()
    const visits: Round[] = []
    for (let round = 0; round <= rounds; round++) visits.push(await visit(browser, sluice.url, key))
    // The first round warms the server.
    const [, ...warm] = visits
    const large = await largePages(browser, sluice.url, key)
    const of = (name: keyof Round): number => rounded(median(warm.map((each) => each[name])), 3)
    return {
      bars: {
        ...{ first_paint_ms: 600, first_number_ms: 1_200, inp_ms: 100, cls: 0.02, kilobytes_gzip: 120, requests: 10 },
        ...{ chart_draw_ms: 16, frames_per_second: 55 },
      },
      slowed: { cpu: 4, megabits: 10 },
      events,
      rounds,
      first_paint_ms: of('first_paint_ms'),
      first_number_ms: of('first_number_ms'),
      requests_to_first_number: of('requests_to_first_number'),
      kilobytes_gzip: of('kilobytes_gzip'),
      cls: of('cls'),
      inp_ms: of('inp_ms'),
      visits: warm,
      not_slowed: large,
    }
  } finally {
    await browser.close()
    await sluice.stop()
    await store.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function registerSite(url: string, key: string): Promise<void> {
  const response = await fetch(`${url}/api/v1/sites`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ site_id: siteId, name: 'Shop' }),
  })
  if (!response.ok) throw new Error(`the site got ${response.status}: ${await response.text()}`)
}

async function visit(browser: Browser, url: string, key: string): Promise<Round> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  try {
    const page = await context.newPage()
    await openSession(page, url, key)
    await startMeasuring(page)
    await slowDown(page)
    const loaded: string[] = []
    page.on('response', (response) => {
      if (!new URL(response.url()).pathname.startsWith('/api/')) loaded.push(response.url())
    })
    await page.goto(`${url}/sites/${siteId}`)
    await page.waitForLoadState('networkidle')
    const first = await measured(page)
    const bytes = await Promise.all(loaded.filter((each) => each.startsWith('http')).map(gzipBytes))
    await useThePage(page)
    const used = await measured(page)
    return {
      first_paint_ms: Math.round(first.firstPaintMs),
      first_number_ms: Math.round(first.firstNumberMs),
      requests_to_first_number: first.requestsToFirstNumber,
      cls: rounded(used.layoutShift, 4),
      inp_ms: Math.round(used.interactionMs),
      kilobytes_gzip: rounded(bytes.reduce((sum, each) => sum + each, 0) / 1_000, 1),
    }
  } finally {
    await context.close()
  }
}

/** The keys and clicks of an analyst: another metric, other ranges, a menu, a filter and back. */
async function useThePage(page: Page): Promise<void> {
  const settle = () => page.waitForLoadState('networkidle')
  for (const name of ['Sessions', 'Bounce rate']) {
    await page.getByRole('radio', { name, exact: true }).click()
    await settle()
  }
  for (const range of ['w', 'f']) {
    await page.keyboard.press(range)
    await settle()
  }
  await page.getByRole('button', { name: 'More', exact: true }).first().click()
  await page.keyboard.press('Escape')
  await page.getByRole('region', { name: 'Countries' }).getByText('Germany').first().click()
  await settle()
  await page.goBack()
  await settle()
}

/** A chart of nearly 5,000 buckets and a table of 10,000 rows, in a browser that is not slowed. */
async function largePages(browser: Browser, url: string, key: string): Promise<object> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  try {
    const page = await context.newPage()
    await openSession(page, url, key)
    return { ...(await drawLargeChart(page, url)), ...(await scrollLargeTable(page, url, key)) }
  } finally {
    await context.close()
  }
}

/** The time of the main thread for one drawing of the chart, and for one step of its cursor. */
async function drawLargeChart(page: Page, url: string): Promise<object> {
  const chartDays = 208
  const dayMs = 86_400_000
  const dateOf = (daysAgo: number) => new Date(Date.now() - daysAgo * dayMs).toISOString().slice(0, 10)
  await page.goto(`${url}/sites/${siteId}?range=${dateOf(chartDays - 1)}..${dateOf(0)}&by=hour&compare=none`)
  const chart = page.locator('figure canvas')
  await chart.waitFor()
  await page.waitForTimeout(2_000)
  const box = await chart.boundingBox()
  if (!box) throw new Error('the chart has no place on the page')
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable')
  const taskMs = async (): Promise<number> => {
    const { metrics } = await session.send('Performance.getMetrics')
    return 1_000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN)
  }
  const nextFrame = () => page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))')
  const steps = 40
  const cost = async (step: (n: number) => Promise<void>): Promise<number> => {
    const before = await taskMs()
    for (let n = 0; n < steps; n++) {
      await step(n)
      await nextFrame()
    }
    return rounded(((await taskMs()) - before) / steps, 1)
  }
  return {
    buckets: chartDays * 24,
    // The page is laid out again, and the chart is drawn with another width.
    chart_draw_ms: await cost((n) => page.setViewportSize({ width: 1000 + (n % 2) * 20, height: 900 })),
    chart_cursor_ms: await cost((n) => page.mouse.move(box.x + 50 + n * 10, box.y + 100)),
  }
}

/** Frames a second while the errors of an import are scrolled by the wheel. */
async function scrollLargeTable(page: Page, url: string, key: string): Promise<object> {
  const rows = 10_000
  const form = new FormData()
  const lines = Array.from({ length: rows }, (_, n) => `click,yesterday ${n}`)
  form.set('file', new Blob([`event_type,timestamp_ms\n${lines.join('\n')}\n`], { type: 'text/csv' }), 'events.csv')
  form.set('type', 'events')
  form.set('site_id', siteId)
  const headers = { Authorization: `Bearer ${key}` }
  const response = await fetch(`${url}/api/v1/imports`, { method: 'POST', headers, body: form })
  if (response.status !== 202) throw new Error(`the import got ${response.status}: ${await response.text()}`)
  const { data } = (await response.json()) as { data: { job_id: string } }
  await page.goto(`${url}/sites/${siteId}/imports?open=${data.job_id}`)
  await page.getByText('10,000 records failed').waitFor({ timeout: 60_000 })
  const table = page.getByRole('region', { name: 'Errors' }).getByRole('table')
  await table.hover()
  const framesFor = (ms: number) =>
    page.evaluate<number>(`new Promise((resolve) => {
      let frames = 0
      const end = performance.now() + ${ms}
      const count = (now) => (now < end ? (frames++, requestAnimationFrame(count)) : resolve(frames))
      requestAnimationFrame(count)
    })`)
  const seconds = 3
  const frames = framesFor(seconds * 1_000)
  for (let turns = 0; turns < seconds * 20; turns++) {
    await page.mouse.wheel(0, 400)
    await page.waitForTimeout(40)
  }
  const scrolled = await page.evaluate<number>(`document.querySelector('.virtual').scrollTop`)
  if (scrolled === 0) throw new Error('the table was not scrolled')
  return { rows, frames_per_second: rounded((await frames) / seconds, 1) }
}
