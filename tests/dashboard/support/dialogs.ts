import type { Page } from 'playwright-core'

/** What opens a dialog or a menu: its name, the path of its page, and what a person does there. */
export type Opener = [name: string, path: string, open: (page: Page, isWide: boolean) => Promise<void>]

/**
 * The dialogs of a site that has the records of resources.ts. `textOf` gives the text of the page for an English text.
 */
export function dialogsOf(siteId: string, textOf: (english: string) => string = (english) => english): Opener[] {
  const press = (name: string) => (page: Page) =>
    page
      .getByRole('button', { name: textOf(name), exact: true })
      .first()
      .click()
  const openRow = (text: string | RegExp) => (page: Page) =>
    page.getByRole('row').filter({ hasText: text }).getByRole('button').first().click()
  const site = `/sites/${siteId}`
  return [
    [
      'a filter',
      site,
      async (page, isWide) => {
        if (!isWide) await press('View')(page)
        await press('Filter')(page)
        await page.getByRole('combobox', { name: textOf('Property'), exact: true }).waitFor()
      },
    ],
    ['the shortcuts', site, (page) => page.keyboard.press('?')],
    ['the days', site, (page) => page.keyboard.press('c')],
    ['the menu of a number', site, press('More')],
    ['the table of the chart', site, (page) => page.keyboard.press('t')],
    ['all pages', site, press('All')],
    [
      'a guest link',
      site,
      async (page) => {
        await press('Share')(page)
        await press('Make a guest link')(page)
      },
    ],
    ['a new key', '/settings/keys', press('Create key')],
    ['a key', '/settings/keys', openRow(/Reader/)],
    ['a cohort', `${site}/cohorts`, openRow(/Readers/)],
    ['a file to import', `${site}/imports`, press('Import a file')],
    ['an import', `${site}/imports`, openRow(textOf('Events'))],
    ['a webhook', `${site}/webhooks`, openRow(/127\.0\.0\.1/)],
    ['a new webhook', `${site}/webhooks`, press('New webhook')],
  ]
}
