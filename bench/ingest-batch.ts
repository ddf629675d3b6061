import { nodeFlags } from '../tests/support/node-flags.ts'
import { startChild } from './child.ts'
import { startRig } from './gateway-rig.ts'
import { load } from './load.ts'
import { median, rounded } from './report.ts'
import { batchBodies, shapes } from './shapes.ts'

const batchEvents = 500
const connections = 16
const rounds = 3
const referenceSeconds = 5

/**
 * S2: batches of 500 events that one gateway process accepts and stores durably, compared with a loop in one thread
 * that parses the same bodies and serialises them again, without a server, and on Kafka also with a bare gateway by
 * kafkajs.
 */
export async function ingestBatch(): Promise<object> {
  const rig = await startRig()
  const results: object[] = []
  for (const log of rig.logs) {
    for (const [events, lines] of Object.entries(shapes)) {
      const bodies = batchBodies(lines, batchEvents)
      const gateway = await startChild(
        'gateway-server.ts',
        { LOG_URL: log.url, SLUICE_POSTGRES_URL: rig.postgresUrl, SLUICE_REDIS_URL: rig.redisUrl, SLUICE_PORT: '0' },
        nodeFlags('services/gateway/main.ts'),
      )
      const bareKafka = log.bareGateway && (await startChild('bare-kafka-gateway.ts', log.bareGateway))
      const runs = []
      for (let round = 0; round < rounds; round++) {
        const bare = parseAndStringify(bodies)
        const kafka = bareKafka && (await load(`${bareKafka.url}/collect/batch`, { bodies, connections, headers: {} }))
        const headers = { authorization: `Bearer ${rig.key}` }
        const ours = await load(`${gateway.url}/collect/batch`, { bodies, connections, headers })
        const eventsPerSecond = ours.requestsPerSecond * batchEvents
        const kafkaPerSecond = (kafka?.requestsPerSecond ?? NaN) * batchEvents
        const ratio = eventsPerSecond / bare
        runs.push({ bare, ours, eventsPerSecond, ratio, kafkaPerSecond, kafkaRatio: eventsPerSecond / kafkaPerSecond })
      }
      results.push({
        log: log.name,
        events,
        ratio: rounded(median(runs.map(({ ratio }) => ratio))),
        events_per_second: Math.round(median(runs.map(({ eventsPerSecond }) => eventsPerSecond))),
        reference_per_second: Math.round(median(runs.map(({ bare }) => bare))),
        ...(bareKafka && {
          bare_kafka_ratio: rounded(median(runs.map(({ kafkaRatio }) => kafkaRatio))),
          bare_kafka_per_second: Math.round(median(runs.map(({ kafkaPerSecond }) => kafkaPerSecond))),
        }),
        p50_ms: median(runs.map(({ ours }) => ours.p50Ms)),
        p99_ms: median(runs.map(({ ours }) => ours.p99Ms)),
        rss_mib: await gateway.rssMib(),
      })
      await bareKafka?.stop()
      await gateway.stop()
    }
  }
  await rig.stop()
  return { bar: 0.3, bar_bare_kafka: 1.5, results }
}

/** Events per second. */
function parseAndStringify(bodies: readonly string[]): number {
  const end = performance.now() + referenceSeconds * 1000
  const began = performance.now()
  let batches = 0
  while (performance.now() < end) {
    JSON.stringify(JSON.parse(bodies[batches % bodies.length] ?? ''))
    batches++
  }
  return (batches * batchEvents) / ((performance.now() - began) / 1000)
}
