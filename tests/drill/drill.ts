import { join } from 'node:path'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Audit, audit } from '../chaos/audit.ts'
import { idPrefix } from '../chaos/events.ts'
import { type Ledger, sendAll } from '../chaos/sender.ts'
import type { DrillRig, Services } from './rig.ts'

export interface DrillOptions {
  seed: number
  /** Events before the disaster, the last third of them after the backups. */
  events: number
  say: (line: string) => void
}

export interface DrillResult {
  /** Problems; empty when the drill succeeded. */
  problems: string[]
  /** Seconds of each command. */
  seconds: Record<string, number>
}

const person = 'person-to-forget'
const personSite = 'forgetful'
const storedTimeoutMs = 180_000

/**
 * R17: a full and an incremental backup are made while a sender with a ledger sends events. Then a person is erased, a
 * key is revoked, Postgres is backed up again, and further events arrive. Everything except the log is destroyed, and
 * restored by the commands of docs/backup.md.
 */
export async function drill(rig: DrillRig, { seed, events, say }: DrillOptions): Promise<DrillResult> {
  const seconds: Record<string, number> = {}
  const run = async (label: string, name: 'admin/backup/main' | 'admin/restore/main', args: readonly string[]) => {
    const beganAt = performance.now()
    const { code, output } = await rig.command(name, args)
    seconds[label] = Math.round((performance.now() - beganAt) / 100) / 10
    if (code !== 0) throw new Error(`${label} ended with ${code}: ${output}`)
    say(`${label}: ${seconds[label]} s\n${output.trim()}`)
  }
  const [full, incremental] = ['full', 'incremental'].map((name) => `file:${join(rig.backups, name)}`) as [
    string,
    string,
  ]

  let services = await rig.startServices()
  const { key: doomedKey, keyId } = await createKey(rig, services)
  await sendPerson(rig, services, 20)
  const before = Math.ceil((events * 2) / 3)
  const backups = async (): Promise<void> => {
    await run('full backup', 'admin/backup/main', [full])
    await run('incremental backup', 'admin/backup/main', [incremental, '--base', full])
  }
  const [first] = await Promise.all([send(rig, services, { seed, events: before }), backups()])

  await call(rig, services, `POST /api/v1/sites/${personSite}/erasures`, { user_id: person })
  await call(rig, services, `DELETE /api/v1/settings/keys/${keyId}`)
  await run('backup of Postgres', 'admin/backup/main', [incremental, '--postgres-only'])
  const second = await send(rig, services, { seed: seed + 1, events: events - before })
  await waitUntilStored(rig, [first, second])
  const paths = questions(Date.now())
  const answers = await ask(rig, services, paths)

  say('Everything but the log is destroyed.')
  await services.kill()
  await rig.destroyEngines()
  await run('restore', 'admin/restore/main', [incremental])
  services = await rig.startServices()
  await waitUntilStored(rig, [first, second])

  const problems: string[] = []
  for (const ledger of [first, second]) problems.push(...judge(await audit([rig.engines().clickHouseUrl], ledger)))
  const restored = await ask(rig, services, paths)
  for (const [question, answer] of answers) {
    const now = restored.get(question)
    if (now !== answer) problems.push(`${question}: ${answer} before, ${now} after`)
  }
  const left = await count(rig, 'user_id = {person:String}', { person })
  if (left > 0) problems.push(`${left} events of the erased person`)
  const { status } = await fetch(`${services.queryUrl}${paths[0]}`, {
    headers: { Authorization: `Bearer ${doomedKey}` },
  })
  if (status !== 401) problems.push(`the revoked key is answered ${status}`)
  await services.kill()
  return { problems, seconds }
}

function send(rig: DrillRig, { gatewayUrl }: Services, load: { seed: number; events: number }): Promise<Ledger> {
  return sendAll({
    urls: [gatewayUrl],
    key: rig.key,
    batchEvents: 100,
    concurrency: 4,
    eventsPerSecond: 1_000,
    resendShare: 0.05,
    requestTimeoutMs: 10_000,
    retryPauseMs: 100,
    patienceMs: 60_000,
    signal: new AbortController().signal,
    ...load,
  })
}

async function sendPerson(rig: DrillRig, { gatewayUrl }: Services, events: number): Promise<void> {
  const response = await fetch(`${gatewayUrl}/collect/batch`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${rig.key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      events: Array.from({ length: events }, (_, n) => ({
        site_id: personSite,
        event_type: 'view',
        event_id: `p${n}`,
        user_id: person,
      })),
    }),
  })
  if (response.status !== 202) throw new Error(`the person's events: ${response.status} ${await response.text()}`)
  await waitUntil(
    async () => (await count(rig, 'user_id = {person:String}', { person })) === events,
    'the events of the person are stored',
    storedTimeoutMs,
  )
}

async function createKey(rig: DrillRig, services: Services): Promise<{ key: string; keyId: string }> {
  const body = { name: 'doomed', scopes: ['stats:read'] }
  const { data } = await call(rig, services, 'POST /api/v1/settings/keys', body)
  const created = data as { key: string; key_id: string }
  return { key: created.key, keyId: created.key_id }
}

async function call(
  rig: DrillRig,
  { queryUrl }: Services,
  request: `${'GET' | 'POST' | 'DELETE'} ${string}`,
  body?: object,
) {
  const [method = '', path = ''] = request.split(' ')
  const response = await fetch(`${queryUrl}${path}`, {
    method,
    headers: { Authorization: `Bearer ${rig.key}`, ...(body && { 'Content-Type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const content = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${content}`)
  return content === '' ? {} : (JSON.parse(content) as { data?: unknown; complete_until?: number })
}

/** Typical queries of users; returns the answers without fields that depend on the time. */
async function ask(rig: DrillRig, services: Services, paths: readonly string[]): Promise<Map<string, string>> {
  const answers = new Map<string, string>()
  for (const path of paths) {
    const { data } = await call(rig, services, `GET ${path}`)
    answers.set(
      path,
      JSON.stringify(data, (name, value: unknown) => (volatile.has(name) ? undefined : value)),
    )
  }
  return answers
}

function questions(now: number): string[] {
  const day = 86_400_000
  const range = `site_id=hot&start_date=${now - 420 * day}&end_date=${now}`
  const metrics = ['event_count', 'unique_users', 'unique_sessions', 'visitors', 'bounce_rate', 'event_count_by_type']
  return [...metrics.map((metric) => `/api/v1/stats?metric=${metric}&${range}`), '/api/v1/settings/keys']
}

const volatile = new Set(['complete_until', 'timestamp', 'last_used_at'])

async function waitUntilStored(rig: DrillRig, ledgers: readonly Ledger[]): Promise<void> {
  for (const { seed, events } of ledgers) {
    const prefix = idPrefix(seed)
    await waitUntil(
      async () => (await count(rig, 'startsWith(event_id, {prefix:String})', { prefix })) >= events,
      `the ${events} events of ${prefix} are stored`,
      storedTimeoutMs,
    )
  }
}

async function count(rig: DrillRig, condition: string, params: Record<string, string>): Promise<number> {
  const clickHouse = openClickHouse(rig.engines().clickHouseUrl)
  try {
    const { rows } = await clickHouse.query<{ found: number }>(
      `SELECT uniqExact(event_id) AS found FROM events WHERE ${condition}`,
      params,
    )
    return rows[0]?.found ?? 0
  } finally {
    await clickHouse.close()
  }
}

function judge({ lost, twice, altered, foreign, differences }: Audit): string[] {
  const counts = Object.entries({ lost, twice, altered, foreign }).filter(([, found]) => found > 0)
  return counts.length === 0
    ? []
    : [counts.map(([what, found]) => `${found} ${what}`).join(', '), JSON.stringify(differences[0])]
}
