import { execFile } from 'node:child_process'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import type { BrowserContext, Page } from 'playwright-core'
import { contentTypes, type DashboardFiles, loadDashboard } from '@sluice/dashboard/load'
import { pseudoTexts } from '@sluice/dashboard/pseudo-texts'
import { inEachDialog } from './support/dialogs.ts'
import { openSession, type Rig } from './support/rig.ts'
import { type PageName, routesOf } from './support/routes.ts'
import { startSeededRig } from './support/seeded-rig.ts'
import { describeWithChromium, useBrowser } from './support/use-browser.ts'

const siteId = 'shop'
const dashboardFolder = new URL('../../packages/dashboard/', import.meta.url)

/** Stored names, those that no language translates, and what Intl writes: dates, and bytes. */
const untranslated = String.raw`https?:\S*|Readers? Résumé|purchase|timestamp|value|Sluice|Node|Python|Go|PHP|UTC|CSV|NDJSON|JSON|admin|[a-z_]+:[a-z]+|${siteId}|\d{1,2}(?:–\d{1,2})? \p{L}{3,4}(?: \d{4})?|[\d.]+ [kMG]?B`

/** Visible texts and accessible names that are neither in the pseudo-language nor data. */
const foreignTexts = `(() => {
  const untranslated = /${untranslated}/gu
  const isForeign = (text) => {
    let rest = text
    for (let before = ''; before !== rest;) [before, rest] = [rest, rest.replace(/⟦[^⟦⟧]*⟧/g, '')]
    // An element within a text divides it.
    return /\\p{L}{2}/u.test(rest.replace(/⟦.*$/s, '').replace(/^.*⟧/s, '').replace(untranslated, ''))
  }
  const data = 'bdi, code, pre, kbd, time, data, script, style, noscript'
  const found = new Set()
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement
    if (element.closest(data) || !element.checkVisibility() || !isForeign(node.data)) continue
    found.add(element.outerHTML.slice(0, 200))
  }
  for (const name of ['aria-label', 'title', 'placeholder', 'alt']) {
    for (const element of document.querySelectorAll('[' + name + ']')) {
      if (element.closest(data) || element.querySelector('bdi') || !isForeign(element.getAttribute(name))) continue
      found.add(element.outerHTML.slice(0, 200))
    }
  }
  return [...found]
})()`

describeWithChromium('in a language that is two fifths longer', () => {
  const visitors = useBrowser()
  let rig: Rig
  let files: DashboardFiles

  beforeAll(async () => {
    const build = fileURLToPath(new URL('build.ts', dashboardFolder))
    await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', build, '--pseudo'])
    files = loadDashboard(fileURLToPath(new URL('dist-pseudo', dashboardFolder)))
    rig = await startSeededRig(siteId)
  })
  afterAll(() => rig.stop())

  /** Answers with the build in the pseudo-language, and leaves the API to Sluice. */
  const serve = (context: BrowserContext) =>
    context.route(
      ({ origin, pathname }) => origin === rig.url && !pathname.startsWith('/api/'),
      async (route) => {
        const { pathname } = new URL(route.request().url())
        const asset = files.assets.get(pathname.replace('/assets/', ''))
        const { contentType, encoded } = asset ?? files.shell
        if (!asset && extname(pathname) in contentTypes) await route.continue()
        else await route.fulfill({ contentType, body: encoded.identity })
      },
    )

  const expectFitting = async (page: Page, dialog?: string): Promise<void> => {
    const width = page.viewportSize()?.width ?? 0
    const foreign = await page.evaluate(foreignTexts)
    expect({ dialog, width, foreign }).toEqual({ dialog, width, foreign: [] })
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
  }

  it.each(Object.entries(routesOf(siteId)) as [PageName, string][])(
    'the page %s and its dialogs have their texts from the messages, and room for them',
    async (name, path) => {
      const { page, context } = await visitors.open()
      await serve(context)
      await openSession(page, rig.url, rig.admin)
      await page.goto(rig.url + path)
      await page.getByRole('heading', { level: 1 }).first().waitFor()
      await page.waitForLoadState('networkidle')
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 900 })
        await expectFitting(page)
        await inEachDialog(page, name, (dialog) => expectFitting(page, dialog), pseudoTexts)
      }
    },
  )
})
