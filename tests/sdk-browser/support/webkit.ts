import { spawn } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { findFreePort } from '../../support/free-port.ts'
import { killProcess, type Profile, type RunningBrowser, type Tab } from './browser.ts'
import { openWebDriverSession, type WebDriverSession } from './web-driver.ts'

/**
 * The MiniBrowser of WebKitGTK: SLUICE_TEST_WEBKIT, or Debian's; undefined where it, its driver or xvfb-run is missing.
 */
export function findWebKit(): string | undefined {
  const named = process.env.SLUICE_TEST_WEBKIT
  if (named !== undefined) return named
  const [file] = globSync('/usr/lib/*/webkit2gtk-4.*/MiniBrowser')
  return ['/usr/bin/WebKitWebDriver', '/usr/bin/xvfb-run'].every((each) => existsSync(each)) ? file : undefined
}

/** MiniBrowser keeps nothing when it is driven, so that a profile lives as long as its browser. */
export function createWebKitProfile(): Promise<Profile> {
  return Promise.resolve({ start: startWebKit, remove: () => Promise.resolve() })
}

async function startWebKit(): Promise<RunningBrowser> {
  const port = await findFreePort()
  // WebKitGTK has no mode without a display. A group of its own, so that one signal ends all processes.
  const child = spawn('xvfb-run', ['-a', 'WebKitWebDriver', `--port=${port}`], { stdio: 'ignore', detached: true })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const end = async (): Promise<void> => {
    // xvfb-run removes the files of its display.
    process.kill(-(child.pid ?? 0), 'SIGTERM')
    await exited
    killProcess(-(child.pid ?? 0))
  }
  try {
    const session = await openWebDriverSession(`http://127.0.0.1:${port}`, {
      'webkitgtk:browserOptions': { binary: findWebKit(), args: ['--automation'] },
    })
    // The session ends with its last tab: this one stays open.
    const first = (await session.send('GET', '/window')) as string
    return {
      openTab: () => openTab(session, first),
      closeTabs: async () => {
        const handles = (await session.send('GET', '/window/handles')) as string[]
        for (const handle of handles) {
          if (handle !== first) await session.sendTo(handle, 'DELETE', '/window').catch(() => undefined)
        }
      },
      kill: end,
      // The driver ends the session when a page crashes.
      killPages: () => Promise.reject(new Error('WebKitWebDriver ends with the processes of its pages')),
    }
  } catch (error) {
    await end()
    throw error
  }
}

/** Opens a tab beside `opener`, the handle of an open one. */
async function openTab(session: WebDriverSession, opener: string): Promise<Tab> {
  const { handle } = (await session.sendTo(opener, 'POST', '/window/new', { type: 'tab' })) as { handle: string }
  return {
    goto: (url) => session.sendTo(handle, 'POST', '/url', { url }),
    evaluate: async <T>(expression: string): Promise<T> => {
      const script = `const done = arguments[0]
        Promise.resolve(${expression}).then((value) => done({ value: JSON.stringify(value ?? null) }), (error) => done({ error: String(error) }))`
      const answer = await session.sendTo(handle, 'POST', '/execute/async', { script, args: [] })
      const { value, error } = answer as { value?: string; error?: string }
      if (error !== undefined) throw new Error(error)
      return JSON.parse(value ?? 'null') as T
    },
    reload: () => session.sendTo(handle, 'POST', '/refresh', {}),
    close: async () => {
      await session.sendTo(handle, 'DELETE', '/window')
    },
  }
}
