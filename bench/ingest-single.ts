import { nodeFlags } from '../tests/support/node-flags.ts'
import { startChild } from './child.ts'
import { startRig } from './gateway-rig.ts'
import { load } from './load.ts'
import { median, rounded } from './report.ts'
import { shapes } from './shapes.ts'

const connections = 64
const rounds = 3

/**
 * S1: single events that a gateway authenticates, accepts and stores durably over 64 connections. The references are a
 * bare node:http server that reads, parses and answers; on Kafka also a bare gateway with kafkajs; and the same gateway
 * without keys and limits. The servers take turns; ratios are medians over the rounds.
 */
export async function ingestSingle(): Promise<object> {
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
    for (const [events, bodies] of Object.entries(shapes)) {
      const gateway = await startChild('gateway-server.ts', environment, flags)
      const bareKafka = log.bareGateway && (await startChild('bare-kafka-gateway.ts', log.bareGateway))
      const runs = []
      for (let round = 0; round < rounds; round++) {
        const bare = await load(`${reference.url}/collect`, { bodies, connections, headers: {} })
        const kafka = bareKafka && (await load(`${bareKafka.url}/collect`, { bodies, connections, headers: {} }))
        const headers = { authorization: `Bearer ${rig.key}` }
        const ours = await load(`${gateway.url}/collect`, { bodies, connections, headers })
        const own = log.url.startsWith('file:') ? { LOG_URL: `${log.url}-open` } : {}
        const open = await startChild('gateway-server.ts', { ...environment, ...own, OPEN_TO_ALL: '1' }, flags)
        const withoutAccess = await load(`${open.url}/collect`, { bodies, connections, headers })
        await open.stop()
        const accessCost = 1 - ours.requestsPerSecond / withoutAccess.requestsPerSecond
        const kafkaPerSecond = kafka?.requestsPerSecond ?? NaN
        const ratio = ours.requestsPerSecond / bare.requestsPerSecond
        runs.push({
          bare,
          ours,
          accessCost,
          ratio,
          kafkaPerSecond,
          kafkaRatio: ours.requestsPerSecond / kafkaPerSecond,
        })
      }
      results.push({
        log: log.name,
        events,
        ratio: rounded(median(runs.map(({ ratio }) => ratio))),
        events_per_second: Math.round(median(runs.map(({ ours }) => ours.requestsPerSecond))),
        reference_per_second: Math.round(median(runs.map(({ bare }) => bare.requestsPerSecond))),
        ...(bareKafka && {
          bare_kafka_ratio: rounded(median(runs.map(({ kafkaRatio }) => kafkaRatio))),
          bare_kafka_per_second: Math.round(median(runs.map(({ kafkaPerSecond }) => kafkaPerSecond))),
        }),
        access_cost: rounded(median(runs.map(({ accessCost }) => accessCost))),
        p50_ms: median(runs.map(({ ours }) => ours.p50Ms)),
        p99_ms: median(runs.map(({ ours }) => ours.p99Ms)),
        rss_mib: await gateway.rssMib(),
      })
      await bareKafka?.stop()
      await gateway.stop()
    }
  }
  await reference.stop()
  await rig.stop()
  return { bar: 0.4, bar_bare_kafka: 0.7, results }
}
