import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Locator, Page } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { Rig } from './rig.ts'

/** The full value of a headline number, which its radio holds in `data-number`. */
export async function headline(page: Page, name: string): Promise<number> {
  const radio = page.getByRole('radio', { name, exact: true })
  return Number((await radio.evaluate(readNumber)) ?? Number.NaN)
}

/** What is used of an element: the tests' types have no DOM. */
interface NumberElement {
  matches(selector: string): boolean
  querySelector(selector: string): NumberElement | null
  dataset: { number?: string }
}

const readNumber = (element: NumberElement): string | undefined =>
  (element.matches('[data-number]') ? element : element.querySelector('[data-number]'))?.dataset.number

/** What the menu of a number or panel copies by one of its entries, e.g. "Copy curl". */
export async function copied(page: Page, more: Locator, entry: string): Promise<string> {
  const nothing = 'nothing was copied'
  await page.evaluate(`navigator.clipboard.writeText('${nothing}')`)
  await more.click()
  await page.getByRole('button', { name: entry, exact: true }).click()
  let text = nothing
  await waitUntil(
    async () => (text = await page.evaluate<string>('navigator.clipboard.readText()')) !== nothing,
    `${entry} copies`,
    30_000,
  )
  return text
}

/** Runs a copied command in a shell that knows a key, and nothing else; returns what it prints. */
export async function runInShell(command: string, key: string): Promise<unknown> {
  const env = { PATH: process.env.PATH, SLUICE_KEY: key }
  let stdout = ''
  await waitUntil(async () => {
    ;({ stdout } = await promisify(execFile)('bash', ['-c', command], { env }))
    return !stdout.includes('"Service temporarily unavailable"')
  }, 'the command is answered')
  return JSON.parse(stdout)
}

/** Every number in an answer, however deep, as text: what a number on the page can be found among. */
function numbersIn(value: unknown): Set<string> {
  const found = new Set<string>()
  const visit = (each: unknown): void => {
    if (typeof each === 'number') found.add(String(each))
    else if (typeof each === 'object' && each !== null) for (const inner of Object.values(each)) visit(inner)
  }
  visit(value)
  return found
}

/** The rows of a CSV text (RFC 4180). */
export function readCsv(text: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  for (const [, quoted, plain = '', end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    row.push(quoted?.replaceAll('""', '"') ?? plain)
    if (end === ',') continue
    if (row.length > 1 || row[0] !== '') rows.push(row)
    row = []
    if (end === '') break
  }
  return rows
}

/** The numbers that one menu stands for. */
interface NumberGroup {
  /** Number of the menu's button among all buttons named "More". */
  more: number
  /** `data-number` of each. */
  numbers: string[]
}

/**
 * Groups the numbers of a page by the menu beside them: the first "More" in the nearest element around a number that
 * has one.
 */
const groupNumbers = `(() => {
  const name = (button) => button.getAttribute('aria-label') ?? button.textContent.trim()
  const menus = [...document.querySelectorAll('button')].filter((button) => name(button) === 'More')
  const groups = new Map()
  for (const element of document.querySelectorAll('[data-number]')) {
    let around = element
    let menu = -1
    while (around && menu < 0) {
      menu = menus.findIndex((button) => around.contains(button))
      around = around.parentElement
    }
    groups.set(menu, [...(groups.get(menu) ?? []), element.dataset.number])
  }
  return [...groups].map(([more, numbers]) => ({ more, numbers }))
})()`

/** A number on the page that is not in what its menu gives. */
export interface Mismatch {
  number: string
  /** `curl` or `CSV`. */
  missingIn: string
  /** What was copied. */
  text: string
}

/**
 * Looks for every `[data-number]` of the page in the output of the curl command and in the CSV that its menu copies.
 * A number without a menu is a mismatch, too. `checked` is how many numbers there are.
 */
export async function compareNumbers(page: Page, rig: Rig): Promise<{ checked: number; mismatches: Mismatch[] }> {
  const groups = await page.evaluate<NumberGroup[]>(groupNumbers)
  const mismatches: Mismatch[] = []
  let checked = 0
  for (const { more, numbers } of groups) {
    checked += numbers.length
    if (more < 0) {
      mismatches.push(...numbers.map((number) => ({ number, missingIn: 'a menu', text: '' })))
      continue
    }
    const button = page.getByRole('button', { name: 'More', exact: true }).nth(more)
    const curl = await copied(page, button, 'Copy curl')
    const printed = numbersIn(await runInShell(curl, rig.admin))
    const csv = await copied(page, button, 'Copy CSV')
    const cells = new Set(
      readCsv(csv)
        .flat()
        .filter((cell) => cell !== '' && Number.isFinite(Number(cell)))
        .map((cell) => String(Number(cell))),
    )
    for (const number of numbers) {
      const value = String(Number(number))
      if (!printed.has(value)) mismatches.push({ number, missingIn: 'curl', text: curl })
      if (!cells.has(value)) mismatches.push({ number, missingIn: 'CSV', text: csv })
    }
  }
  return { checked, mismatches }
}
