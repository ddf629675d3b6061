import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Selectable } from 'kysely'
import { queueDeliveries } from '@sluice/postgres/deliveries'
import type { Postgres } from '@sluice/postgres/open'
import type { Tables } from '@sluice/postgres/tables'
import { retryDelaysMs } from '@sluice/worker/webhooks/retry-schedule'
import { drawBelow, seededRandom } from '../chaos/random.ts'
import { addWebhook } from '../support/webhooks.ts'
import { behaviours, type Plan, type ReceivedAttempt, retryAfterSeconds, startReceivers } from './receivers.ts'

export interface KilledWorkersOptions {
  deliveries: number
  kills: number
  seed: number
  /** Each receiver that hangs does so for this time, ms. */
  timeoutMs: number
  /** Time advances in steps of this fraction of the time since the start, but at least by a second. */
  step: number
  say?: (line: string) => void
}

export interface KilledWorkersResult {
  /** Problems; empty when all is well. */
  problems: string[]
  kills: number
  attempts: number
  /** Requests that reached a receiver, including those of workers that were killed before they recorded them. */
  requests: number
  succeeded: number
  failed: number
  virtualHours: number
}

const startAt = Date.UTC(2042, 5, 1, 12)
const secret = 'the secret of all'
const workers = 2
const hourMs = 3_600_000
/** A killed worker keeps a delivery, and its place at the endpoint, for a lease. */
const leaseMs = 30_000
const longestMs = 250 * hourMs

/** Receivers of a run: most of them do something else with each attempt. */
const plans: readonly Plan[] = ['mixed', 'mixed', 'mixed', 'mixed', ...behaviours]

interface Worker {
  /** Resolves when the worker waits only for time to pass, or has ended. */
  quiet(): Promise<void>
  /** Lets time pass for it; resolves as `quiet`. */
  advance(ms: number): Promise<void>
  kill(): Promise<void>
}

function startWorker(postgresUrl: string, now: number, timeoutMs: number): Worker {
  const file = fileURLToPath(new URL('worker-process.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      POSTGRES_URL: postgresUrl,
      NOW: String(now),
      TIMEOUT_MS: String(timeoutMs),
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  let quiet = Promise.withResolvers<undefined>()
  const exited = once(child, 'exit')
  child.on('message', () => quiet.resolve(undefined))
  child.on('exit', (code) => {
    if (code === null) quiet.resolve(undefined)
    else quiet.reject(new Error('a worker has ended by itself'))
  })
  return {
    quiet: () => quiet.promise,
    advance: (ms) => {
      quiet = Promise.withResolvers()
      child.send({ advance: ms })
      return quiet.promise
    },
    kill: async () => {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/**
 * R7: deliveries to receivers that answer 200, 500, 429, 302, 410, hang or reset, sent by two workers that are killed
 * at random moments, over days of virtual time. Then every delivery has ended, no other id was sent for it, and each
 * attempt came on its schedule.
 */
export async function killWorkers(
  postgres: Postgres & { url: string },
  options: KilledWorkersOptions,
): Promise<KilledWorkersResult> {
  const { deliveries, kills, seed, timeoutMs, say = () => undefined } = options
  const random = seededRandom(seed)
  const receivers = await startReceivers({ secret, seed })
  await queueAll(postgres, receivers.url, deliveries)
  let now = startAt
  let running = Array.from({ length: workers }, () => startWorker(postgres.url, now, timeoutMs))
  let killed = 0
  try {
    await Promise.all(running.map((worker) => worker.quiet()))
    let steps = 0
    while (now - startAt < longestMs) {
      const next = await nextDue(postgres)
      if (next === undefined) break
      const ms = Math.max(1_000, (now - startAt) * options.step, next - now)
      now += Math.round(ms)
      const victim = killed < kills && steps % 3 === 1 ? drawBelow(random, workers) : -1
      steps += 1
      const survivors = running.filter((_, at) => at !== victim)
      const quiet = survivors.map((worker) => worker.advance(Math.round(ms)))
      if (victim >= 0) {
        const dying = running[victim]
        if (!dying) throw new Error('no such worker')
        dying.advance(Math.round(ms)).catch(() => undefined)
        await setTimeout(drawBelow(random, 40))
        await dying.kill()
        killed += 1
        say(`killed ${killed}, ${Math.round((now - startAt) / 1_000)} virtual s`)
        const fresh = startWorker(postgres.url, now, timeoutMs)
        running = [...survivors, fresh]
        quiet.push(fresh.quiet())
      }
      await Promise.all(quiet)
    }
    const audited = await audit(postgres, receivers.received, options)
    return { ...audited, kills: killed, requests: receivers.received.length, virtualHours: (now - startAt) / hourMs }
  } finally {
    await Promise.all(running.map((worker) => worker.kill()))
    await receivers.close()
  }
}

/** One endpoint for about 25 deliveries, and one at least for each plan. */
async function queueAll(postgres: Postgres, url: string, count: number): Promise<void> {
  const endpointIds: string[] = []
  for (let n = 0; n < Math.max(plans.length, Math.ceil(count / 25)); n += 1) {
    const plan = plans[n % plans.length] ?? 'mixed'
    endpointIds.push(await addWebhook(postgres, { url: `${url}/${plan}/${n}`, secret, at: startAt }))
  }
  const all = Array.from({ length: count }, (_, n) => {
    const source = `source ${n}`
    const body = { event_type: 'alert', timestamp: startAt, site_id: 'shop', data: { source } }
    const endpointId = endpointIds[n % endpointIds.length] ?? ''
    return { endpointId, source, kind: 'alert', body: Buffer.from(JSON.stringify(body)) } as const
  })
  for (let at = 0; at < all.length; at += 1_000) await queueDeliveries(postgres.db, all.slice(at, at + 1_000), startAt)
}

/** When the next attempt can be taken; undefined: nothing waits. */
async function nextDue({ db }: Postgres): Promise<number | undefined> {
  const { due } = await db
    .selectFrom('deliveries')
    .select((select) => select.fn.min<Date | null>('due_at').as('due'))
    .executeTakeFirstOrThrow()
  return due?.getTime()
}

type Audited = Omit<KilledWorkersResult, 'kills' | 'requests' | 'virtualHours'>

async function audit(
  { db }: Postgres,
  received: readonly ReceivedAttempt[],
  { step }: KilledWorkersOptions,
): Promise<Audited> {
  const requests = Map.groupBy(received, ({ source }) => source)
  const off = await db.selectFrom('endpoints').select('endpoint_id').where('disabled_at', 'is not', null).execute()
  const disabled = new Set(off.map(({ endpoint_id }) => endpoint_id))
  const stored = await db.selectFrom('attempts').selectAll().orderBy('n').execute()
  const attempts = Map.groupBy(stored, ({ delivery_id }) => delivery_id)
  const rows = await db.selectFrom('deliveries').selectAll().execute()
  const problems = rows.flatMap((row) => {
    const own = attempts.get(row.delivery_id) ?? []
    const sent = requests.get(row.source) ?? []
    const isOff = disabled.has(row.endpoint_id)
    const found = [...outcomeProblems(row, own, { sent, isOff }), ...timingProblems(own, step)]
    return found.map((problem) => `${row.source} (${row.status}, ${row.attempts} attempts): ${problem}`)
  })
  return {
    problems,
    attempts: stored.length,
    succeeded: rows.filter(({ status }) => status === 'succeeded').length,
    failed: rows.filter(({ status }) => status === 'failed').length,
  }
}

type Row = Pick<Selectable<Tables['deliveries']>, 'delivery_id' | 'status' | 'lease_until' | 'attempts'>
type AttemptRow = Pick<Selectable<Tables['attempts']>, 'n' | 'at' | 'status'>

function outcomeProblems(
  { delivery_id: id, status, lease_until, attempts: count }: Row,
  own: readonly AttemptRow[],
  { sent, isOff }: { sent: readonly ReceivedAttempt[]; isOff: boolean },
): string[] {
  const hasArrived = own.at(-1)?.status === 200 && sent.some(({ behaviour }) => behaviour === 'ok')
  const checks: [isWrong: boolean, problem: string][] = [
    [status === 'pending' || lease_until !== null, 'has not ended'],
    [sent.some(({ deliveryId }) => deliveryId !== id), 'was sent under another id'],
    [sent.some(({ isSigned }) => !isSigned), 'has a wrong signature'],
    [own.length !== count || own.some(({ n }, at) => n !== at + 1), 'attempts are missing'],
    [own.filter((attempt) => attempt.status !== null).length > sent.length, 'has more responses than requests'],
    [status === 'succeeded' && !hasArrived, 'is lost'],
    [status === 'failed' && count < retryDelaysMs.length && !isOff, 'was given up early'],
  ]
  return checks.filter(([isWrong]) => isWrong).map(([, problem]) => problem)
}

/**
 * An attempt must not come before its time. It must come at most a step of the time later, or a lease later after a
 * killed worker.
 */
function timingProblems(attempts: readonly AttemptRow[], step: number): string[] {
  return attempts.slice(1).flatMap(({ at }, before) => {
    const previous = attempts[before]
    const delay = retryDelaysMs[before + 1]
    if (!previous || delay === undefined) return ['has too many attempts']
    const waited = at.getTime() - previous.at.getTime()
    const asked = previous.status === 429 ? Math.min(retryAfterSeconds * 1_000, 2 * delay) : 0
    const slack = 2 * (1_000 + leaseMs + (at.getTime() - startAt) * step)
    if (waited < Math.max(0.8 * delay, asked) - 1) return [`attempt ${before + 2} came after ${waited} ms`]
    return waited > Math.max(1.2 * delay, asked) + slack ? [`attempt ${before + 2} came late, after ${waited} ms`] : []
  })
}
