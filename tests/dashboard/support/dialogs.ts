import { expect } from '@jest/globals'
import type { Page } from 'playwright-core'
import type { PageName } from './routes.ts'
import { waitUntilPasses } from './wait-until-passes.ts'

/** What opens a dialog or a menu: its name, its page, and what a person does there. */
type Opener = [name: string, on: PageName, open: (page: Page, isWide: boolean) => Promise<void>]

/**
 * Opens each dialog and menu of a page of a site that has the records of resources.ts, calls `check` with its name, and
 * closes it. `textOf` gives the text of the page for an English text.
 */
export async function inEachDialog(
  page: Page,
  pageName: PageName,
  check: (dialog: string) => Promise<void>,
  textOf = (english: string) => english,
): Promise<void> {
  const isWide = (page.viewportSize()?.width ?? 0) > 1000
  const shown = page.getByRole('dialog').or(page.locator('.popover:popover-open'))
  for (const [name, on, open] of dialogsOf(textOf)) {
    if (on !== pageName) continue
    await open(page, isWide)
    await shown.first().waitFor()
    await check(name)
    // One may stand in another.
    await waitUntilPasses(async () => {
      await page.keyboard.press('Escape')
      expect(await shown.count()).toBe(0)
    })
  }
}

function dialogsOf(textOf: (english: string) => string): Opener[] {
  const press = (name: string) => (page: Page) =>
    page
      .getByRole('button', { name: textOf(name), exact: true })
      .first()
      .click()
  const openRow = (text: string | RegExp) => (page: Page) =>
    page.getByRole('row').filter({ hasText: text }).getByRole('button').first().click()
  return [
    [
      'a filter',
      'Overview',
      async (page, isWide) => {
        if (!isWide) await press('View')(page)
        await press('Filter')(page)
        await page.getByRole('combobox', { name: textOf('Property'), exact: true }).waitFor()
      },
    ],
    ['the shortcuts', 'Overview', (page) => page.keyboard.press('?')],
    ['the days', 'Overview', (page) => page.keyboard.press('c')],
    ['the menu of a number', 'Overview', press('More')],
    ['the table of the chart', 'Overview', (page) => page.keyboard.press('t')],
    ['all pages', 'Overview', press('All')],
    [
      'a guest link',
      'Overview',
      async (page) => {
        await press('Share')(page)
        await press('Create a guest link')(page)
      },
    ],
    ['a new key', 'API Keys', press('Create key')],
    ['a key', 'API Keys', openRow(/Reader/)],
    ['a cohort', 'Cohorts', openRow(/Readers/)],
    ['a file to import', 'Imports', press('Import a file')],
    ['an import', 'Imports', openRow(textOf('Events'))],
    ['a webhook', 'Webhooks', openRow(/127\.0\.0\.1/)],
    ['a new webhook', 'Webhooks', press('New webhook')],
  ]
}
