import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import { chromiumArguments, findChromium } from '../../dashboard/support/chromium.ts'

/** A running browser whose processes can be killed. */
export interface RunningBrowser {
  context: BrowserContext
  /** SIGKILL to the browser and everything that it has started. */
  kill: () => Promise<void>
  /** SIGKILL to the processes of the pages. */
  killPages: () => Promise<void>
}

/** A folder with what a browser remembers. */
export interface Profile {
  start: () => Promise<RunningBrowser>
  remove: () => Promise<void>
}

export async function createProfile(): Promise<Profile> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-profile-'))
  return {
    start: () => startBrowser(folder),
    remove: () => rm(folder, { recursive: true, force: true, maxRetries: 10 }),
  }
}

/** Starts the browser by itself, since playwright neither tells its process nor lets it be killed. */
async function startBrowser(folder: string): Promise<RunningBrowser> {
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
    kill(-(child.pid ?? 0))
    await exited
  }
  try {
    let port = ''
    const isListening = async (): Promise<boolean> => {
      ;[port = ''] = (await readFile(portFile, 'utf8').catch(() => '')).split('\n', 1)
      return port !== ''
    }
    await waitUntil(isListening, 'the browser listens', 60_000)
    const browser: Browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`)
    const [context] = browser.contexts()
    if (!context) throw new Error('the browser has no profile')
    // A busy machine takes longer for a page than the default of 30 s.
    context.setDefaultTimeout(120_000)
    const session = await browser.newBrowserCDPSession()
    return {
      context,
      kill: async () => {
        await end()
        await browser.close().catch(() => undefined)
      },
      killPages: async () => {
        const { processInfo } = (await session.send('SystemInfo.getProcessInfo')) as {
          processInfo: { type: string; id: number }[]
        }
        for (const { type, id } of processInfo) if (type === 'renderer') kill(id)
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}

/** SIGKILL to a process, or by a negative id to a group. */
function kill(id: number): void {
  try {
    process.kill(id, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
