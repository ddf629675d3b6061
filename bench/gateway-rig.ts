import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '@sluice/engines/postgres'
import { ensureTopics } from '@sluice/event-log/kafka/ensure-topics'
import { createAdminKey } from '@sluice/postgres/admin-key'
import { keyStore } from '@sluice/postgres/keys'
import { migratePostgres } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { startKafka } from '../tests/support/engines/kafka.ts'
import { kafkaMissing } from '../tests/support/engines/kafka-files.ts'
import { redisMissing, startRedis } from '../tests/support/engines/redis.ts'

export interface BenchLog {
  name: string
  url: string
  /** Environment of `bare-kafka-gateway.ts` on the same broker. */
  bareGateway?: { BROKERS: string; TOPIC: string }
}

/** The engines of a gateway under load, and the kinds of logs that are measured. */
export interface Rig {
  key: string
  postgresUrl: string
  redisUrl: string
  /** `file`, and `kafka` where this machine can run Kafka; `BENCH_LOG` selects one. */
  logs: BenchLog[]
  stop(): Promise<void>
}

export async function startRig(): Promise<Rig> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const postgres = await startPostgres({ dir: join(folder, 'postgres') })
  const missing = kafkaMissing()
  if (missing !== undefined) console.error(`Without Kafka: ${missing}`)
  const kafka = missing === undefined ? await startKafka({ dir: join(folder, 'kafka'), isOptimised: true }) : undefined

  const withoutRedis = redisMissing()
  if (withoutRedis !== undefined) throw new Error(withoutRedis)
  const redis = await startRedis({ dir: join(folder, 'redis') })

  const client = openPostgres(postgres.url)
  await migratePostgres(client)
  const admin = await createAdminKey(keyStore(client))
  await client.close()
  const logs: BenchLog[] = [{ name: 'file', url: `file:${join(folder, 'log')}` }]
  if (kafka) {
    const url = `kafka://${kafka.brokers}/bench.events`
    await ensureTopics(url)
    // The topic of the bare gateway has as many partitions.
    await ensureTopics(`${url}-bare`)
    logs.push({ name: 'kafka', url, bareGateway: { BROKERS: kafka.brokers, TOPIC: 'bench.events-bare' } })
  }
  return {
    key: admin?.key ?? '',
    postgresUrl: postgres.url,
    redisUrl: redis.url,
    logs: logs.filter(({ name }) => name === (process.env.BENCH_LOG ?? name)),
    stop: async () => {
      await kafka?.stop()
      await postgres.stop()
      await redis.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
