import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type BidiSession, openBidiSession } from './bidi.ts'
import { killProcess, type Profile, type RunningBrowser, type Tab } from './browser.ts'

/**
 * The Firefox of this machine: SLUICE_TEST_FIREFOX, or `firefox` or `firefox-esr` on the PATH; undefined where there is
 * none.
 */
export function findFirefox(): string | undefined {
  const named = process.env.SLUICE_TEST_FIREFOX
  if (named !== undefined) return named
  const folders = ['/usr/bin', ...(process.env.PATH ?? '').split(delimiter)]
  const files = folders.flatMap((folder) => ['firefox', 'firefox-esr'].map((name) => join(folder, name)))
  return files.find((file) => existsSync(file))
}

/** No questions after a crash, no old tabs, and no requests of the browser itself. */
const preferences = {
  'app.update.disabledForTesting': true,
  'browser.sessionstore.resume_from_crash': false,
  'browser.shell.checkDefaultBrowser': false,
  'browser.tabs.unloadOnLowMemory': false,
  'datareporting.policy.dataSubmissionEnabled': false,
  'dom.ipc.processPrelaunch.enabled': false,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'services.settings.server': 'data:,',
  'toolkit.startup.max_resumed_crashes': -1,
}

export async function createFirefoxProfile(): Promise<Profile> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-profile-'))
  const lines = Object.entries(preferences).map(
    (each) => `user_pref(${each.map((part) => JSON.stringify(part)).join(', ')});`,
  )
  await writeFile(join(folder, 'user.js'), lines.join('\n'))
  return {
    start: () => startFirefox(folder),
    remove: () => rm(folder, { recursive: true, force: true, maxRetries: 10 }),
  }
}

async function startFirefox(folder: string): Promise<RunningBrowser> {
  const options = ['--headless', '--no-remote', '--profile', folder, '--remote-debugging-port=0']
  // A group of its own, so that one signal ends all of its processes.
  const child = spawn(findFirefox() ?? 'firefox', options, { stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const end = async (): Promise<void> => {
    killProcess(-(child.pid ?? 0))
    await exited
  }
  try {
    const session = await openBidiSession(`${await addressOf(child)}/session`)
    return {
      openTab: () => openTab(session),
      closeTabs: async () => {
        const { contexts } = (await session.send('browsingContext.getTree', {})) as { contexts: { context: string }[] }
        // Firefox ends with its last tab.
        await session.send('browsingContext.create', { type: 'tab' })
        for (const { context } of contexts) {
          await session.send('browsingContext.close', { context }).catch(() => undefined)
        }
      },
      kill: async () => {
        await end()
        session.close()
      },
      killPages: () => {
        for (const id of pageProcesses(child.pid ?? 0)) killProcess(id)
        return Promise.resolve()
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}

/** `ws://127.0.0.1:<port>`, once Firefox has printed it. */
async function addressOf(child: ChildProcess): Promise<string> {
  let output = ''
  child.stderr?.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-10_000)))
  const found = (): string | undefined => /WebDriver BiDi listening on (ws:\S+)/.exec(output)?.[1]
  await waitUntil(() => found() !== undefined, 'Firefox listens')
  return found() ?? ''
}

async function openTab(session: BidiSession): Promise<Tab> {
  const { context } = (await session.send('browsingContext.create', { type: 'tab' })) as { context: string }
  return {
    goto: (url) => session.send('browsingContext.navigate', { context, url, wait: 'complete' }),
    evaluate: async <T>(expression: string): Promise<T> => {
      const answer = (await session.send('script.evaluate', {
        expression: `Promise.resolve(${expression}).then((value) => JSON.stringify(value ?? null))`,
        target: { context },
        awaitPromise: true,
      })) as { type: string; result?: { value?: string }; exceptionDetails?: { text: string } }
      if (answer.type !== 'success') throw new Error(answer.exceptionDetails?.text ?? 'the page failed')
      return JSON.parse(answer.result?.value ?? 'null') as T
    },
    reload: () => session.send('browsingContext.reload', { context, wait: 'complete' }),
    close: async () => {
      await session.send('browsingContext.close', { context })
    },
  }
}

/** The processes of a Firefox that run pages (Linux). Throws when there are none. */
function pageProcesses(group: number): number[] {
  const isOne = (id: number): boolean => {
    try {
      // The fields after the name, which is in brackets: state, parent and group.
      const [, , groupId] = (readFileSync(`/proc/${id}/stat`, 'utf8').split(') ').at(-1) ?? '').split(' ')
      const command = readFileSync(`/proc/${id}/cmdline`, 'utf8').replaceAll('\0', ' ').trimEnd()
      return Number(groupId) === group && command.includes(' -contentproc ') && command.endsWith(' tab')
    } catch {
      // It has ended meanwhile.
      return false
    }
  }
  const found = readdirSync('/proc').map(Number).filter(isOne)
  if (found.length === 0) throw new Error('Firefox has no process that runs a page')
  return found
}
