import { fork } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import type { LoadAnswer, LoadReport, LoadStage } from '../support/load-generator.ts'
import { type ProducerRequests, producerRequests, requestSuffix } from '../support/producer-requests.ts'
import { waitForDrain } from './drain.ts'
import type { SenderOrder } from './overload-sender.ts'
import type { Rig } from './rig.ts'
import type { Outcome, Say } from './scenario.ts'

export interface OverloadOptions {
  /** Duration of each overload. */
  stageSeconds: number
  say: Say
}

const batchEvents = 500
/** Numbers of connections that send as fast as they can; the largest accepted rate is the capacity. */
const peakConnections = [4, 16, 32]
const warmUpConnections = 8
/** More connections than the open loop needs; its clients do not wait for each other. */
const overloadConnections = 8_000
const goodputShareMin = 0.9
const recoveryMsMax = 5_000
const refusalMsMax = 2_500
const rssMibMax = 400
/** Time limit for a response; at half of the capacity, responses take a fraction of it. */
const healthyMs = 1_000
const recoverySeconds = 15
const drainTimeoutMs = 600_000

/**
 * R4: clients that don't wait for each other send 2 and 3 times as many events as Sluice can accept, in the shapes that
 * producers send. It must continue to accept events at its capacity, refuse the rest with 429 or 503 in time, stay
 * within its memory, and recover soon after the overload. Every accepted event must be stored once.
 */
export async function overload(rig: Rig, { stageSeconds, say }: OverloadOptions): Promise<Outcome> {
  const sender = startSender()
  try {
    return await measure(rig, sender.send, { stageSeconds, say })
  } finally {
    sender.end()
  }
}

async function measure(
  rig: Rig,
  order: (order: SenderOrder) => Promise<LoadReport>,
  { stageSeconds, say }: OverloadOptions,
): Promise<Outcome> {
  const accepted = new Set<number>()
  const statuses: Record<string, number> = {}
  let broken = 0
  let from = 0

  async function send(connections: number, stages: readonly LoadStage[]): Promise<LoadReport> {
    const report = await order({
      urls: rig.gateways.map(({ url }) => url),
      key: rig.key,
      batchEvents,
      connections,
      stages: stages.map(({ perSecond, seconds }) => ({
        perSecond: perSecond === Infinity ? null : perSecond,
        seconds,
      })),
      from,
    })
    from = report.to
    broken += report.broken
    for (const { n, status } of report.answers) {
      statuses[status] = (statuses[status] ?? 0) + 1
      if (status === 202) accepted.add(n)
    }
    return report
  }

  const stageMs = stageSeconds * 1000
  // Sites are registered, and code is compiled, before anything is measured.
  await send(warmUpConnections, [{ perSecond: Infinity, seconds: stageSeconds }])
  let peak = 0
  for (const connections of peakConnections) {
    const { answers } = await send(connections, [{ perSecond: Infinity, seconds: stageSeconds }])
    const { perSecond } = taken(answers, stageMs)
    say(`${connections} connections that wait for their answers: ${Math.round(perSecond * batchEvents)} events/s`)
    peak = Math.max(peak, perSecond)
    // The writers must have stored the events of this measurement, so that they use no CPU during the next one.
    await waitForDrain(rig, drainTimeoutMs)
  }
  const overloads = []
  for (const times of [2, 3]) {
    const report = await send(overloadConnections, [
      { perSecond: times * peak, seconds: stageSeconds },
      { perSecond: peak / 2, seconds: recoverySeconds },
    ])
    const { answers, unsent } = report
    const { perSecond, p50_ms, p99_ms } = taken(answers, stageMs)
    const goodput_share = Number((perSecond / peak).toFixed(2))
    const recovered_ms = recoveryTime(answers, stageMs)
    const slowest_refusal_ms = slowestRefusal(answers)
    const rss_mib = await rssPeakMib(rig)
    say(`${times} times that: ${goodput_share} of it is taken, as before after ${recovered_ms} ms`)
    overloads.push({
      times,
      goodput_share,
      p50_ms,
      p99_ms,
      slowest_refusal_ms,
      rss_mib,
      unsent,
      unanswered: report.broken,
      answered: answers.length,
      recovered_ms,
    })
    await waitForDrain(rig, drainTimeoutMs)
  }
  const { lost, lost_without_id, twice } = await auditRequests(
    rig,
    accepted,
    producerRequests({ key: rig.key, batchEvents }),
  )
  return {
    figures: {
      peak_events_per_second: Math.round(peak * batchEvents),
      overloads,
      statuses,
      broken,
      lost,
      lost_without_id,
      twice,
    },
    problems: [
      ...overloads.flatMap(({ times, goodput_share, recovered_ms, slowest_refusal_ms, rss_mib, unsent }) => [
        ...(goodput_share < goodputShareMin ? [`at ${times} times the capacity ${goodput_share} of it was taken`] : []),
        ...(recovered_ms > recoveryMsMax ? [`${recovered_ms} ms until all was as before ${times} times`] : []),
        ...(slowest_refusal_ms > refusalMsMax ? [`a refusal took ${slowest_refusal_ms} ms at ${times} times`] : []),
        ...(rss_mib > rssMibMax ? [`a gateway had ${rss_mib} MiB at ${times} times`] : []),
        ...(unsent > 0 ? [`${unsent} requests found no connection at ${times} times`] : []),
      ]),
      ...Object.keys(statuses)
        .filter((status) => !['202', '429', '503'].includes(status))
        .map((status) => `answers ${status}`),
      ...(broken > 0 ? [`${broken} requests got no answer`] : []),
      ...(lost > 0 ? [`${lost} requests lost events`] : []),
      ...(lost_without_id > 0 ? [`${lost_without_id} events without an id were lost`] : []),
      ...(twice > 0 ? [`${twice} requests have events twice`] : []),
    ],
    details: [],
  }
}

function startSender(): { send: (order: SenderOrder) => Promise<LoadReport>; end: () => void } {
  const child = fork(fileURLToPath(new URL('overload-sender.ts', import.meta.url)))
  return {
    send: (order) =>
      new Promise((resolve, reject) => {
        const onExit = (): void => reject(new Error('the sender ended'))
        child.once('exit', onExit)
        child.once('message', (report) => {
          child.off('exit', onExit)
          resolve(report as LoadReport)
        })
        child.send(order)
      }),
    end: () => child.kill(),
  }
}

/** The highest resident memory of a gateway since its start, in MiB. */
async function rssPeakMib(rig: Rig): Promise<number> {
  const peaks = await Promise.all(
    rig.gateways.map(async (gateway) => {
      const status = await readFile(`/proc/${gateway.pid()}/status`, 'utf8')
      return Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1024)
    }),
  )
  return Math.max(...peaks)
}

function slowestRefusal(answers: readonly LoadAnswer[]): number {
  let slowest = 0
  for (const { status, sentAt, answeredAt } of answers) {
    if (status !== 202) slowest = Math.max(slowest, answeredAt - sentAt)
  }
  return Math.round(slowest)
}

/** The durations of the requests that were answered 202 in the first `ms`. */
function taken(answers: readonly LoadAnswer[], ms: number): { perSecond: number; p50_ms: number; p99_ms: number } {
  const times = answers
    .filter(({ status, answeredAt }) => status === 202 && answeredAt <= ms)
    .map(({ dueAt, answeredAt }) => answeredAt - dueAt)
    .sort((a, b) => a - b)
  const quantile = (share: number): number => Math.round(times[Math.floor(times.length * share)] ?? 0)
  return { perSecond: times.length / (ms / 1000), p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
}

/**
 * Time from an overload's end to the end of the last second with more than 1 % of responses that were late or not 202.
 */
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

/**
 * Compares what was stored with the requests that were answered 202. Events without an id can only be counted: those of
 * a request that was answered 503 may be stored, too.
 */
async function auditRequests(
  rig: Rig,
  accepted: ReadonlySet<number>,
  { countsOf }: ProducerRequests,
): Promise<{ lost: number; lost_without_id: number; twice: number }> {
  const clickHouse = openClickHouse(rig.clickHouse.url)
  try {
    const { rows } = await clickHouse.query<{ request: string; stored: number; ids: number }>(
      `SELECT right(event_id, 8) AS request, count() AS stored, uniqExact(event_id) AS ids
       FROM events WHERE match(event_id, '-[0-9a-f]{8}$') GROUP BY request`,
    )
    const stored = new Map(rows.map(({ request, ids }) => [request, ids]))
    const { rows: others } = await clickHouse.query<{ stored: number }>(
      `SELECT count() AS stored FROM events WHERE NOT match(event_id, '-[0-9a-f]{8}$') AND site_id != 'sentinel'`,
    )
    let withoutId = 0
    for (const n of accepted) withoutId += countsOf(n).events - countsOf(n).withId
    return {
      lost: [...accepted].filter((n) => stored.get(requestSuffix(n)) !== countsOf(n).withId).length,
      lost_without_id: Math.max(0, withoutId - (others[0]?.stored ?? 0)),
      twice: rows.filter((row) => row.stored > row.ids).length,
    }
  } finally {
    await clickHouse.close()
  }
}
