import { waitUntil } from '@sluice/runtime/wait-until'
import { askTimeoutMs, createSpareKey, keysPath, statusOf } from './administration.ts'
import type { Rig } from './rig.ts'
import { countBusyRefusals, countErrors } from './rig-parts.ts'
import type { Outcome, Say } from './scenario.ts'
import { underLoad } from './under-load.ts'

export interface RedisAwayOptions {
  seed: number
  /** Seconds that the sending takes; 20 by default. */
  secondsOfLoad?: number
  say: Say
}

const eventsPerSecond = 500
/** Limit of the scenario's key in events per minute; each process knows the count from before Redis goes away. */
const limit = 1_000
const spentBefore = 600
/** The share of the limit by which the count of a process may be wrong (R5). */
const tolerance = 0.1
const backTimeoutMs = 120_000

/**
 * R5: while Redis is unavailable (killed, then frozen) events are accepted, each process enforces a key's limit by
 * itself, and sessions are refused. When Redis is back after a freeze, earlier sessions work again.
 */
export async function redisAway(rig: Rig, { seed, secondsOfLoad = 20, say }: RedisAwayOptions): Promise<Outcome> {
  const figures: Record<string, unknown> = {}
  const problems: string[] = []
  let refusedOfKey = 0

  async function outage(
    name: string,
    begin: () => void | Promise<void>,
    end: () => void | Promise<void>,
  ): Promise<void> {
    const { key } = await createSpareKey(rig, { rate_limits: { events_per_minute: limit } })
    await Promise.all(rig.gateways.map(({ url }) => makeKnown(url, key)))
    const before = await sendEach(rig, key, spentBefore / 2)
    let cookie = ''
    const session = (): Promise<number> => statusWithCookie(rig, cookie)
    // On a busy machine Redis may reply too late once, which refuses a session.
    const isOpen = async (): Promise<boolean> => {
      cookie = await openSession(rig)
      return (await session()) === 200
    }
    await waitUntil(isOpen, 'a session works', backTimeoutMs)

    await begin()
    // Each gateway gets more than the limit and counts alone, on top of the sum of both in its last reply from Redis.
    const away = await sendEach(rig, key, limit)
    const statuses = { session: await session(), key: await statusOf(`${rig.query.url}${keysPath}`, rig.key) }
    refusedOfKey += sum([...before, ...away].map(({ unavailable }) => unavailable))
    figures[name] = { taken_before: before.map(({ taken }) => taken), while_away: away, ...statuses }
    const room = limit * (1 + tolerance) - spentBefore / 2
    for (const { taken, other } of away) {
      if (taken > room) problems.push(`${name}: a gateway took ${taken} events, ${room} is the most`)
      if (taken < limit * (1 - tolerance) - spentBefore) problems.push(`${name}: a gateway took ${taken} events only`)
      if (other > 0) problems.push(`${name}: ${other} answers were none of 202, 429 and 503`)
    }
    if (statuses.session !== 503) problems.push(`${name}: a session was answered ${statuses.session}`)
    if (statuses.key !== 200) problems.push(`${name}: a key was answered ${statuses.key}`)
    await end()
    const works = async (): Promise<boolean> => (await statusWithCookie(rig, await openSession(rig))) === 200
    await waitUntil(works, 'sessions work again', backTimeoutMs)
  }

  const { redis } = rig
  const freeze = (): void => redis.pause()
  const wake = (): void => redis.resume()
  const busyBefore = countBusyRefusals(rig.gateways)
  const result = await underLoad(rig, {
    // R5 promises answers, not their latency, which a busy machine raises to seconds.
    load: { seed, events: eventsPerSecond * secondsOfLoad, eventsPerSecond, requestTimeoutMs: askTimeoutMs },
    faults: [
      {
        name: 'killed',
        at: 0.2,
        run: () =>
          outage(
            'killed',
            () => redis.kill(),
            () => redis.restart(),
          ),
      },
      { name: 'frozen', at: 0.6, run: () => outage('frozen', freeze, wake) },
    ],
    say,
  })
  const { statuses, unanswered } = result.ledger.figures
  // `underLoad` checks other statuses. Refusals because of a busy machine do not count as refusals because of Redis.
  const refused = (statuses[503] ?? 0) + refusedOfKey - Math.max(0, countBusyRefusals(rig.gateways) - busyBefore)
  return {
    figures: { ...figures, ...result.figures },
    problems: [
      ...problems,
      ...result.problems,
      ...(refused <= 0 && unanswered === 0 ? [] : [`events got 503 (${refused}) or no answer (${unanswered})`]),
    ],
    details: [...result.details, Object.fromEntries(countErrors(rig.gateways))],
  }
}

interface Taken {
  taken: number
  refused: number
  /** Answers 503, after each of which the event was sent again. */
  unavailable: number
  other: number
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)

/** Few, because on a busy machine more of them would overload the gateways, which then rightly answer 503. */
const concurrency = 10

/**
 * Sends requests with a key until the gateway has cached it: the gateway waits a second for Postgres, which may not be
 * enough on a busy machine.
 */
async function makeKnown(url: string, key: string): Promise<void> {
  const isKnown = async (): Promise<boolean> => (await statusOf(`${url}/collect`, key, '{}')) === 400
  await waitUntil(isKnown, 'the key is known', backTimeoutMs)
}

/** Sends `count` events to each gateway, one after the other, and repeats each after a 503. */
function sendEach(rig: Rig, key: string, count: number): Promise<Taken[]> {
  const body = JSON.stringify({ site_id: 'limits', event_type: 'x' })
  const giveUpAt = Date.now() + backTimeoutMs
  return Promise.all(
    rig.gateways.map(async ({ url }) => {
      const result = { taken: 0, refused: 0, unavailable: 0, other: 0 }
      let left = count
      const client = async (): Promise<void> => {
        while (left-- > 0) {
          let status = await statusOf(`${url}/collect`, key, body)
          while (status === 503 && Date.now() < giveUpAt) {
            result.unavailable++
            status = await statusOf(`${url}/collect`, key, body)
          }
          result[status === 202 ? 'taken' : status === 429 ? 'refused' : 'other']++
        }
      }
      await Promise.all(Array.from({ length: concurrency }, client))
      return result
    }),
  )
}

/** Opens a session; returns the value of the `Cookie` header, empty when the session was refused. */
async function openSession({ query, key }: Rig): Promise<string> {
  const response = await fetch(`${query.url}/api/v1/session`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ api_key: key }),
  })
  const { data } = (await response.json()) as { data?: { session_token: string } }
  return data === undefined ? '' : `session=${data.session_token}`
}

async function statusWithCookie({ query }: Rig, cookie: string): Promise<number> {
  const response = await fetch(`${query.url}/api/v1/session`, { headers: { Cookie: cookie } })
  await response.arrayBuffer()
  return response.status
}
