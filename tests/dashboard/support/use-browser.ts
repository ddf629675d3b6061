import { afterAll, afterEach, beforeAll, beforeEach, expect } from '@jest/globals'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import { describeWith } from '../../support/describe-with.ts'
import { wallTime } from '../../support/oracle/zone-clock.ts'
import { warningsOfServices } from '../../support/service-process.ts'
import { findChromium, launchChromium } from './chromium.ts'

/** For suites that need a browser. */
export const describeWithChromium = describeWith('Chromium', findChromium() !== undefined)

/** A browser profile of its own with one page. */
export interface Visit {
  page: Page
  context: BrowserContext
  /**
   * Names failures that the test provokes: messages on the console that match are no problem. Everything else that the
   * browser reports fails the test at its end.
   */
  expectMessages: (pattern: RegExp) => void
}

export interface Visitors {
  /** Opens an empty page in a new profile, which is closed at the end of the test. */
  open(options?: BrowserContextOptions): Promise<Visit>
}

const dayMs = 86_400_000
/** The zones whose days the tests look at. */
const zones = ['UTC', 'Asia/Kolkata', 'Europe/Berlin']
/** Longer than a test takes from its first page to its last look at a day. */
const lastMs = 5 * 60_000

/**
 * Before the sign-in, the page asks who the visitor is, and for the site of its address: the browser reports each 401.
 */
const signedOut = /status of 401.*\/api\/v1\/(session|sites\/[^/]+)$/

/**
 * One browser for the tests of a file. After each test, the test fails if a page of it has reported an error: an
 * exception, an error on the console, or a violation of the content security policy.
 */
export function useBrowser(): Visitors {
  let browser: Browser | undefined
  let contexts: BrowserContext[] = []
  let problems: string[] = []

  beforeAll(async () => {
    browser = await launchChromium()
  })

  afterAll(async () => {
    await browser?.close()
  })

  // Pages go on to the next day by themselves: a test that begins just before midnight would see two days.
  beforeEach(async () => {
    const isLongBeforeMidnight = (zone: string) => dayMs - (wallTime(Date.now(), zone) % dayMs) >= lastMs
    await waitUntil(() => zones.every(isLongBeforeMidnight), 'the next day has begun', 2 * lastMs)
  })

  afterEach(async () => {
    const [opened, found] = [contexts, problems]
    contexts = []
    problems = []
    // A request that a test answers itself may be under way. Its failure would count as one of all tests of the file.
    const pages = opened.flatMap((context) => context.pages())
    await Promise.all(pages.map((page) => page.unrouteAll({ behavior: 'ignoreErrors' })))
    await Promise.all(opened.map((context) => context.close()))
    // The warnings tell why a service refused something.
    expect(found.length > 0 ? [...found, ...warningsOfServices()] : []).toEqual([])
  })

  return {
    open: async (options = {}) => {
      if (!browser) throw new Error('the browser has not started')
      const context = await browser.newContext({
        viewport: { width: 1280, height: 900 },
        locale: 'en-GB',
        timezoneId: 'UTC',
        permissions: ['clipboard-read', 'clipboard-write'],
        // What moves while a page loads takes as much processor time as the rest of it.
        reducedMotion: 'reduce',
        ...options,
      })
      context.setDefaultTimeout(180_000)
      contexts.push(context)
      const expected = [signedOut]
      // A message that arrives late is the problem of the test that opened the page.
      const found = problems
      const report = (text: string): void => {
        if (!expected.some((pattern) => pattern.test(text))) found.push(text)
      }
      context.on('weberror', (error) => {
        report(`exception: ${error.error().stack ?? error.error().message}`)
      })
      context.on('console', (message) => {
        // Violations of the content security policy are errors on the console, too.
        if (message.type() === 'error') report(`console: ${message.text()} at ${message.location().url}`)
      })
      return {
        page: await context.newPage(),
        context,
        expectMessages: (pattern) => expected.push(pattern),
      }
    },
  }
}
