// npm run screenshots: writes docs/images/*.png, of a seeded site at a fixed time.
import { mkdir, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { launchChromium } from './support/chromium.ts'
import { addResources } from './support/resources.ts'
import { openSession, type Rig, startRig } from './support/rig.ts'
import { seededEvents } from './support/seed.ts'

const siteId = 'shop'
const folder = fileURLToPath(new URL('../../docs/images/', import.meta.url))
/** A Wednesday afternoon: what the pages take for now. */
const shownAt = Date.UTC(2026, 10, 18, 14, 12)
const bytesMax = 200_000

interface Shot {
  path: string
  dark?: true
  narrow?: true
  /** Opens what the picture is about. */
  prepare?: (page: Page) => Promise<void>
}

const site = `/sites/${siteId}`

const shots: Readonly<Record<string, Shot>> = {
  overview: { path: site },
  'overview-dark': { path: site, dark: true },
  'overview-filtered': { path: `${site}?range=7d&f=country:in:DE,FR&metric=unique_sessions` },
  'overview-narrow': { path: site, narrow: true },
  live: { path: `${site}/live` },
  events: { path: `${site}/events` },
  funnels: { path: `${site}/funnels` },
  retention: { path: `${site}/retention` },
  'retention-dark': { path: `${site}/retention`, dark: true },
  cohorts: { path: `${site}/cohorts` },
  imports: { path: `${site}/imports` },
  exports: { path: `${site}/exports` },
  webhooks: { path: `${site}/webhooks` },
  alerts: { path: `${site}/alerts` },
  'api-keys': { path: '/settings/keys' },
  'api-keys-dark': { path: '/settings/keys', dark: true },
  'create-key': {
    path: '/settings/keys',
    prepare: async (page) => {
      await page.getByRole('button', { name: 'Create key' }).click()
      await page.getByRole('dialog').waitFor()
    },
  },
}

const rig = await startRig({ isEmbedded: true })
const browser = await launchChromium()
try {
  await rig.call('POST', '/api/v1/sites', { site_id: siteId, name: 'Shop' })
  await rig.send(seededEvents({ siteId, now: shownAt, days: 56, sessions: 2_400, hasBusyEnd: false }))
  await addResources(rig, siteId, 'of spring')
  await mkdir(folder, { recursive: true })
  const only = process.argv.slice(2)
  for (const [name, shot] of Object.entries(shots)) {
    if (only.length > 0 && !only.includes(name)) continue
    const image = await take(browser, rig, shot)
    if (image.length > bytesMax) throw new Error(`${name}.png has ${image.length} bytes, more than ${bytesMax}`)
    await writeFile(`${folder}${name}.png`, image)
    console.log(`docs/images/${name}.png: ${Math.round(image.length / 1_000)} kB`)
  }
} finally {
  await browser.close()
  await rig.stop()
}

async function take(browser: Browser, rig: Rig, { path, dark, narrow, prepare }: Shot): Promise<Buffer> {
  const context = await browser.newContext({
    viewport: narrow ? { width: 390, height: 844 } : { width: 1280, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'UTC',
  })
  try {
    const page = await context.newPage()
    await openSession(page, rig.url, rig.admin)
    await fixTime(page)
    await page.goto(rig.url + path)
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await page.waitForLoadState('networkidle')
    await prepare?.(page)
    return await page.screenshot({ animations: 'disabled' })
  } finally {
    await context.close()
  }
}

/**
 * Sets the clock of the page, and the times at which answers say that they were given: pages go by the server's clock.
 */
async function fixTime(page: Page): Promise<void> {
  const shift = shownAt - Date.now()
  await page.clock.setFixedTime(shownAt)
  await page.route(/\/api\/v1\//, async (route) => {
    const response = await route.fetch()
    const text = await response.text()
    const body = text.replaceAll(
      /"(timestamp|complete_until)":(\d{13})(?=[,}])/g,
      (found, name: string, at: string) => {
        // Times of events stay as they are: only what is about now is moved.
        const isNow = Math.abs(Number(at) - Date.now()) < 60_000
        return isNow ? `"${name}":${Number(at) + shift}` : found
      },
    )
    await route.fulfill({ response, body })
  })
}
