import { expect } from '@jest/globals'
import type { Locator, Page } from 'playwright-core'
import { wallTime } from '../../support/oracle/zone-clock.ts'
import { headline } from './numbers.ts'
import { waitUntilPasses } from './wait-until-passes.ts'

const dayMs = 86_400_000

/** Start of the day of a zone in which a moment lies; for zones without a change of clocks on that day. */
export function startOfDay(at: number, zone: string): number {
  const wall = wallTime(at, zone)
  return at - (wall - Math.floor(wall / dayMs) * dayMs)
}

/** The first row of a panel with this text. */
export function rowOf(page: Page, region: string, text: string): Locator {
  return page.getByRole('region', { name: region, exact: true }).getByText(text, { exact: true }).first()
}

/** A headline number once it is there. */
export async function settledHeadline(page: Page, name: string): Promise<number> {
  await waitUntilPasses(async () => expect(await headline(page, name)).not.toBeNaN())
  return headline(page, name)
}
