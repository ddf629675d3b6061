import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

/**
 * The Chromium of this machine: SLUICE_TEST_CHROMIUM, else Debian's or one on the PATH; undefined where there is none.
 * The headless shell is preferred unless `isComplete`: it has the same engine and no window to draw, so that the tests
 * of the dashboard take some 40 % less processor time.
 */
export function findChromium({ isComplete = false } = {}): string | undefined {
  const named = process.env.SLUICE_TEST_CHROMIUM
  if (named !== undefined) return named
  const names = isComplete ? ['chromium'] : ['chromium-headless-shell', 'chromium']
  const folders = ['/usr/bin', ...(process.env.PATH ?? '').split(delimiter)]
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((file) => existsSync(file))
}

export const chromiumArguments = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/**
 * Starts the browser, without a window, and without scroll bars unless told otherwise. `isComplete`: the browser that
 * users have, not the headless shell. Throws when there is none.
 */
export async function launchChromium({ hasScrollBars = false, isComplete = false } = {}): Promise<Browser> {
  const executablePath = findChromium({ isComplete })
  if (executablePath === undefined) {
    const missing = isComplete ? 'complete Chromium' : 'Chromium'
    throw new Error(`There is no ${missing}: install it, or set SLUICE_TEST_CHROMIUM`)
  }
  return chromium.launch({
    executablePath,
    args: chromiumArguments,
    ignoreDefaultArgs: hasScrollBars ? ['--hide-scrollbars'] : [],
  })
}
