import { openClickHouse } from '@sluice/event-store/client'
import { generateLoad, type LoadAnswer, type LoadReport, type LoadStage } from '../support/load-generator.ts'
import { waitForDrain } from './drain.ts'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'

export interface OverloadOptions {
  /** Duration of each overload. */
  stageSeconds: number
  say: Say
}

const batchEvents = 100
/** Numbers of connections that send as fast as they can; the largest accepted rate is the capacity. */
const peakConnections = [16, 64, 256]
const overloadConnections = 512
const goodputShareMin = 0.9
const recoveryMsMax = 5_000
/** Limit for the time of a response; at half of the capacity a response takes a fraction of it. */
const healthyMs = 1_000
const recoverySeconds = 15
const drainTimeoutMs = 600_000

/**
 * R4: clients that don't wait for each other send 2 and 3 times as many events as Sluice can accept. It must continue to
 * accept events at its capacity, refuse the rest with 429 or 503, and recover soon after the overload. Every accepted
 * event must be stored once.
 */
export async function overload(rig: Rig, { stageSeconds, say }: OverloadOptions): Promise<Outcome> {
  const requestFor = requestTemplate(rig.key)
  const accepted = new Set<number>()
  const statuses: Record<string, number> = {}
  let broken = 0
  let from = 0

  async function send(connections: number, stages: readonly LoadStage[]): Promise<LoadReport> {
    const urls = rig.gateways.map(({ url }) => url)
    const report = await generateLoad({ urls, requestFor, connections, stages, from })
    from = report.to
    broken += report.broken
    for (const { n, status } of report.answers) {
      statuses[status] = (statuses[status] ?? 0) + 1
      if (status === 202) accepted.add(n)
    }
    return report
  }

  const stageMs = stageSeconds * 1000
  let peak = 0
  for (const connections of peakConnections) {
    const { answers } = await send(connections, [{ perSecond: Infinity, seconds: stageSeconds }])
    const { perSecond } = taken(answers, stageMs)
    say(`${connections} connections that wait for their answers: ${perSecond * batchEvents} events/s`)
    peak = Math.max(peak, perSecond)
    // The next measurement must not share the cores with the storing of events of this one.
    await waitForDrain(rig, drainTimeoutMs)
  }
  const overloads = []
  for (const times of [2, 3]) {
    const { answers, unsent } = await send(overloadConnections, [
      { perSecond: times * peak, seconds: stageSeconds },
      { perSecond: peak / 2, seconds: recoverySeconds },
    ])
    const { perSecond, p50_ms, p99_ms } = taken(answers, stageMs)
    const goodput_share = Number((perSecond / peak).toFixed(2))
    const recovered_ms = recoveryTime(answers, stageMs)
    say(`${times} times that: ${goodput_share} of it is taken, as before after ${recovered_ms} ms`)
    overloads.push({ times, goodput_share, p50_ms, p99_ms, unsent, answered: answers.length, recovered_ms })
    await waitForDrain(rig, drainTimeoutMs)
  }
  const { lost, twice } = await auditRequests(rig, accepted)
  return {
    figures: { peak_events_per_second: peak * batchEvents, overloads, statuses, broken, lost, twice },
    problems: [
      ...overloads.flatMap(({ times, goodput_share, recovered_ms }) => [
        ...(goodput_share < goodputShareMin ? [`at ${times} times the capacity ${goodput_share} of it was taken`] : []),
        ...(recovered_ms > recoveryMsMax ? [`${recovered_ms} ms until all was as before ${times} times`] : []),
      ]),
      ...Object.keys(statuses)
        .filter((status) => !['202', '429', '503'].includes(status))
        .map((status) => `answers ${status}`),
      ...(broken > 0 ? [`${broken} requests got no answer`] : []),
      ...(lost > 0 ? [`${lost} requests lost events`] : []),
      ...(twice > 0 ? [`${twice} requests have events twice`] : []),
    ],
    details: [],
  }
}

/** The durations of the requests that were answered 202 in the first `ms`. */
function taken(answers: readonly LoadAnswer[], ms: number): { perSecond: number; p50_ms: number; p99_ms: number } {
  const times = answers
    .filter(({ status, answeredAt }) => status === 202 && answeredAt <= ms)
    .map(({ dueAt, answeredAt }) => answeredAt - dueAt)
    .sort((a, b) => a - b)
  const quantile = (share: number): number => Math.round(times[Math.floor(times.length * share)] ?? 0)
  return { perSecond: Math.round(times.length / (ms / 1000)), p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
}

/** Time from an overload's end to the end of the last second with more than 1 % of responses that were late or not 202. */
function recoveryTime(answers: readonly LoadAnswer[], overloadMs: number): number {
  const seconds = Array.from({ length: recoverySeconds }, () => ({ all: 0, bad: 0 }))
  for (const { status, dueAt, answeredAt } of answers) {
    const second = seconds[Math.floor((dueAt - overloadMs) / 1000)]
    if (!second) continue
    second.all++
    if (status !== 202 || answeredAt - dueAt > healthyMs) second.bad++
  }
  return 1000 * (1 + seconds.findLastIndex(({ all, bad }) => bad > all / 100))
}

/** The template of each process has recent times, as most events do. */
const startedAt = Date.now()

/** Eight characters in the id of each event that identify its request. */
const placeholder = '########'

function requestTemplate(key: string): (n: number) => Buffer {
  const events = Array.from({ length: batchEvents }, (_, index) => ({
    event_id: `r${placeholder}-${index}`,
    site_id: 'overload',
    event_type: 'page_view',
    timestamp: startedAt - index * 997,
    session_id: `session-${index}`,
    user_id: `user-${index}`,
    url: `https://shop.example.com/products/${index}`,
    country: 'DE',
    device_type: 'mobile',
    properties: { plan: 'pro', quantity: index },
  }))
  const body = JSON.stringify({ events })
  const head = [
    'POST /collect/batch HTTP/1.1',
    'Host: 127.0.0.1',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '\r\n',
  ].join('\r\n')
  const template = Buffer.from(head + body)
  const offsets: number[] = []
  for (let at = template.indexOf(placeholder); at >= 0; at = template.indexOf(placeholder, at + 1)) offsets.push(at)
  return (n) => {
    const request = Buffer.from(template)
    for (const at of offsets) request.write(requestName(n), at, 'latin1')
    return request
  }
}

function requestName(n: number): string {
  return n.toString(16).padStart(placeholder.length, '0')
}

async function auditRequests(rig: Rig, accepted: ReadonlySet<number>): Promise<{ lost: number; twice: number }> {
  const clickHouse = openClickHouse(rig.clickHouse.url)
  try {
    const { rows } = await clickHouse.query<{ request: string; stored: number; ids: number }>(
      `SELECT substring(event_id, 2, 8) AS request, count() AS stored, uniqExact(event_id) AS ids
       FROM events WHERE site_id = 'overload' GROUP BY request`,
    )
    const whole = new Set(rows.filter(({ ids }) => ids === batchEvents).map(({ request }) => request))
    return {
      lost: [...accepted].filter((n) => !whole.has(requestName(n))).length,
      twice: rows.filter(({ stored, ids }) => stored > ids).length,
    }
  } finally {
    await clickHouse.close()
  }
}
