import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { waitUntil } from '@sluice/runtime/wait-until'
import { answered } from '../../support/answered.ts'
import { client, waitForCount } from '../../support/client.ts'
import { type ServiceProcess, startService } from '../../support/service-process.ts'
import type { SentEvent } from './seed.ts'

/** A real standalone in a folder and databases of its own, and what tests do with it besides the browser. */
export interface Rig {
  /** `http://127.0.0.1:<port>`, without a slash at the end. */
  url: string
  /** The admin key that the first start printed. */
  admin: string
  sluice: ServiceProcess
  /** Process id of the embedded ClickHouse of a rig that has one. */
  clickHousePid(): number
  /** Calls an operation as a client of the API does. Throws unless it succeeds; returns `data`. */
  call<T = Record<string, unknown>>(method: string, path: string, body?: object, key?: string): Promise<T>
  /** Makes a key with these fields of POST /api/v1/settings/keys. */
  createKey(fields: object): Promise<{ key: string; key_id: string }>
  /** Sends events and waits until they are counted. All of them must belong to one site. */
  send(events: readonly SentEvent[], key?: string): Promise<void>
  stop(): Promise<void>
}

const batchEvents = 2_000

/**
 * Starts a standalone with databases on the engines of all tests, or, when `isEmbedded`, with engines of its own, whose
 * start takes seconds.
 */
export async function startRig({ isEmbedded = false } = {}): Promise<Rig> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-dashboard-'))
  const dataFolder = join(folder, 'data')
  const databases = isEmbedded ? undefined : await createDatabases()
  const sluice = await startService('standalone', { SLUICE_DATA_DIR: dataFolder, ...databases?.environment })
  const admin = /svc_prod_\w{34}/.exec(sluice.output())?.[0] ?? ''
  const { url } = sluice
  const call: Rig['call'] = async <T>(method: string, path: string, body?: object, key = admin): Promise<T> => {
    const headers = {
      Authorization: `Bearer ${key}`,
      'Idempotency-Key': randomUUID(),
      ...(body && { 'Content-Type': 'application/json' }),
    }
    const send = () => fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const response = await answered(send, `${method} ${path}`)
    const answer = (await response.json()) as { success: boolean; error?: string; data: T }
    if (!answer.success) throw new Error(`${method} ${path}: ${response.status} ${answer.error ?? ''}`)
    return answer.data
  }
  return {
    url,
    admin,
    sluice,
    clickHousePid: () => Number(readFileSync(join(dataFolder, 'clickhouse/server.pid'), 'utf8')),
    call,
    createKey: (fields) => call('POST', '/api/v1/settings/keys', fields),
    send: async (events, key = admin) => {
      const user = client({ gatewayUrl: url, queryUrl: url, key })
      for (let from = 0; from < events.length; from += batchEvents) {
        // On a busy machine a gateway may ask for another attempt.
        await waitUntil(async () => {
          const { status, body } = await user.collectBatch(events.slice(from, from + batchEvents))
          if (status !== 202 && status !== 503) throw new Error(`the events got ${status}: ${JSON.stringify(body)}`)
          return status === 202
        }, 'a batch is accepted')
      }
      await waitForCount(user, events[0]?.site_id ?? '', events.length)
    },
    stop: async () => {
      await sluice.stop()
      await databases?.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function createDatabases(): Promise<{ environment: Record<string, string>; drop(): Promise<void> }> {
  // It needs jest, without which screenshots.ts runs.
  const { testClickHouse, testPostgres } = await import('../../support/engines/test-engines.ts')
  const [clickHouse, postgres] = [testClickHouse(), await testPostgres({ migrated: true })]
  await clickHouse.create()
  return {
    environment: { SLUICE_CLICKHOUSE_URL: clickHouse.url, SLUICE_POSTGRES_URL: postgres.url },
    drop: async () => {
      await clickHouse.drop()
      await postgres.drop()
    },
  }
}

/** Signs in as a person does: with the key in the field of the sign-in page. */
export async function signIn(page: Page, url: string, key: string): Promise<void> {
  await page.goto(`${url}/signin`)
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL((at) => !at.pathname.startsWith('/signin'))
}

/** Opens a session for the page's profile without the sign-in page. */
export async function openSession(page: Page, url: string, key: string): Promise<void> {
  const { response } = await answered(async () => {
    const answer = await page.request.post(`${url}/api/v1/session`, { data: { api_key: key } })
    return { response: answer, status: answer.status() }
  }, 'the session')
  if (!response.ok()) throw new Error(`the session got ${response.status()}: ${await response.text()}`)
}
