import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** What axe finds wrong on a page: the rule, and the elements. */
export interface Violation {
  rule: string
  help: string
  elements: string[]
}

interface AxeResult {
  violations: { id: string; help: string; nodes: { html: string; failureSummary?: string }[] }[]
}

/** The rules that depend on colours. */
const ofColours = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] }

/**
 * Runs every rule of WCAG 2.2 AA and the best practices of axe on what the page shows now; with `isOnlyColours` those
 * about colours alone, for a page whose other rules have been run in its other theme.
 */
export async function findViolations(page: Page, isOnlyColours = false): Promise<Violation[]> {
  if (!(await page.evaluate<boolean>('typeof axe === "object"'))) await page.evaluate(axe.source)
  const options = { resultTypes: ['violations'], ...(isOnlyColours ? { runOnly: ofColours } : {}) }
  const { violations } = await page.evaluate<AxeResult>(`axe.run(document, ${JSON.stringify(options)})`)
  return violations.map(({ id, help, nodes }) => ({
    rule: id,
    help,
    elements: nodes.map(({ html, failureSummary = '' }) => `${html} ${failureSummary}`),
  }))
}
