import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

/** The Chromium of this machine: SLUICE_TEST_CHROMIUM, Debian's, or `chromium` on the PATH; undefined where there is none. */
export function findChromium(): string | undefined {
  const named = process.env.SLUICE_TEST_CHROMIUM
  if (named !== undefined) return named
  const folders = ['/usr/bin', ...(process.env.PATH ?? '').split(delimiter)]
  return folders.map((folder) => join(folder, 'chromium')).find((file) => existsSync(file))
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

/** Starts the browser, without a window, and without scroll bars unless told otherwise. Throws when there is none. */
export async function launchChromium({ hasScrollBars = false } = {}): Promise<Browser> {
  const executablePath = findChromium()
  if (executablePath === undefined) throw new Error('There is no Chromium: install it, or set SLUICE_TEST_CHROMIUM')
  return chromium.launch({
    executablePath,
    args: chromiumArguments,
    ignoreDefaultArgs: hasScrollBars ? ['--hide-scrollbars'] : [],
  })
}
