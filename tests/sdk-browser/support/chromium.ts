import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import { chromiumArguments, findChromium } from '../../dashboard/support/chromium.ts'
import { killProcess, type Profile, type RunningBrowser } from './browser.ts'

export async function createChromiumProfile(): Promise<Profile> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-profile-'))
  return {
    start: () => startChromium(folder),
    remove: () => rm(folder, { recursive: true, force: true, maxRetries: 10 }),
  }
}

/** Starts the browser by itself, since playwright neither tells its process nor lets it be killed. */
async function startChromium(folder: string): Promise<RunningBrowser> {
  const portFile = join(folder, 'DevToolsActivePort')
  await rm(portFile, { force: true })
  await Promise.all(
    ['SingletonLock', 'SingletonCookie', 'SingletonSocket'].map((name) => rm(join(folder, name), { force: true })),
  )
  const options = ['--headless=new', '--remote-debugging-port=0', `--user-data-dir=${folder}`, 'about:blank']
  // A group of its own, so that one signal ends all of its processes.
  const child = spawn(findChromium() ?? 'chromium', [...chromiumArguments, ...options], {
    stdio: 'ignore',
    detached: true,
  })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const end = async (): Promise<void> => {
    killProcess(-(child.pid ?? 0))
    await exited
  }
  try {
    let port = ''
    const isListening = async (): Promise<boolean> => {
      ;[port = ''] = (await readFile(portFile, 'utf8').catch(() => '')).split('\n', 1)
      return port !== ''
    }
    await waitUntil(isListening, 'the browser listens')
    return await connect(await chromium.connectOverCDP(`http://127.0.0.1:${port}`), end)
  } catch (error) {
    await end()
    throw error
  }
}

async function connect(browser: Browser, end: () => Promise<void>): Promise<RunningBrowser> {
  const [context] = browser.contexts()
  if (!context) throw new Error('the browser has no profile')
  // A busy machine takes longer for a page than the default of 30 s.
  context.setDefaultTimeout(120_000)
  const session = await browser.newBrowserCDPSession()
  const renderers = async (): Promise<number[]> => {
    const { processInfo } = (await session.send('SystemInfo.getProcessInfo')) as {
      processInfo: { type: string; id: number }[]
    }
    return processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id)
  }
  return {
    openTab: () => context.newPage(),
    closeTabs: async () => {
      for (const page of context.pages()) await page.close().catch(() => undefined)
    },
    kill: async () => {
      await end()
      await browser.close().catch(() => undefined)
    },
    killPages: async () => {
      const killed = await renderers()
      for (const id of killed) killProcess(id)
      // The next tab would crash in a spare process of which the browser has not noticed that it is dead.
      const isNoticed = async (): Promise<boolean> => (await renderers()).every((id) => !killed.includes(id))
      await waitUntil(isNoticed, 'the browser has noticed that its pages are dead')
    },
    setOffline: async (tab, offline) => {
      const page = await context.newCDPSession(tab as Page)
      await page.send('Network.enable')
      await page.send('Network.emulateNetworkConditions', {
        offline,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput: -1,
      })
    },
    setStorageFull: async (tab, origin, isFull) => {
      const page = await context.newCDPSession(tab as Page)
      await page.send('Storage.overrideQuotaForOrigin', { origin, ...(isFull && { quotaSize: 1 }) })
    },
  }
}
