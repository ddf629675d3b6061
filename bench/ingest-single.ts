import { nodeFlags } from '../tests/support/node-flags.ts'
import { startChild } from './child.ts'
import { benchEvent } from './events.ts'
import { startRig } from './gateway-rig.ts'
import { load } from './load.ts'
import { median, rounded } from './report.ts'

const connections = 64
const rounds = 3

/**
 * S1: single events that a gateway authenticates, accepts and stores durably over 64 connections, compared with a bare
 * node:http server that reads, parses and answers, and with the same gateway without keys and limits. The servers take
 * turns; ratios are medians over the rounds.
 */
export async function ingestSingle(): Promise<object> {
  const bodies = Array.from({ length: 20_000 }, (_, n) => JSON.stringify(benchEvent(n)))
  const rig = await startRig()
  const reference = await startChild('reference-server.ts')
  const results: object[] = []
  for (const log of rig.logs) {
    const environment = {
      LOG_URL: log.url,
      SLUICE_POSTGRES_URL: rig.postgresUrl,
      SLUICE_REDIS_URL: rig.redisUrl,
      SLUICE_PORT: '0',
    }
    const flags = nodeFlags('services/gateway/main.ts')
    const gateway = await startChild('gateway-server.ts', environment, flags)
    const runs = []
    for (let round = 0; round < rounds; round++) {
      const bare = await load(`${reference.url}/collect`, { bodies, connections, headers: {} })
      const ours = await load(`${gateway.url}/collect`, {
        bodies,
        connections,
        headers: { authorization: `Bearer ${rig.key}` },
      })
      const own = log.url.startsWith('file:') ? { LOG_URL: `${log.url}-open` } : {}
      const open = await startChild('gateway-server.ts', { ...environment, ...own, OPEN_TO_ALL: '1' }, flags)
      const withoutAccess = await load(`${open.url}/collect`, {
        bodies,
        connections,
        headers: { authorization: 'Bearer anybody' },
      })
      await open.stop()
      const accessCost = 1 - ours.requestsPerSecond / withoutAccess.requestsPerSecond
      runs.push({ bare, ours, accessCost, ratio: ours.requestsPerSecond / bare.requestsPerSecond })
    }
    results.push({
      log: log.name,
      ratio: rounded(median(runs.map(({ ratio }) => ratio))),
      events_per_second: Math.round(median(runs.map(({ ours }) => ours.requestsPerSecond))),
      reference_per_second: Math.round(median(runs.map(({ bare }) => bare.requestsPerSecond))),
      access_cost: rounded(median(runs.map(({ accessCost }) => accessCost))),
      p50_ms: median(runs.map(({ ours }) => ours.p50Ms)),
      p99_ms: median(runs.map(({ ours }) => ours.p99Ms)),
      rss_mib: await gateway.rssMib(),
    })
    await gateway.stop()
  }
  await reference.stop()
  await rig.stop()
  return { bar: 0.6, results }
}
