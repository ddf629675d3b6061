// A worker and a writer as a process of their own, for tests that kill it: a file log has one process.
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { openBackfillLog, openDeadLetters, openEventLog } from '@sluice/event-log/open-event-log'
import { openEventEraser } from '@sluice/event-store/erasures/event-eraser'
import { openEventReader } from '@sluice/event-store/event-reader'
import { openExportReader } from '@sluice/event-store/exports/export-reader'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { leaseMetrics } from '@sluice/leases/metrics'
import { openOutbound } from '@sluice/outbound/open-outbound'
import { openPostgres } from '@sluice/postgres/open'
import type { Clock } from '@sluice/runtime/clock'
import { createLogger } from '@sluice/runtime/logger'
import { createMetrics } from '@sluice/runtime/metrics'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { sleep } from '@sluice/runtime/sleep'
import { supervise } from '@sluice/runtime/supervisor'
import { workerTasks } from '@sluice/worker/worker-tasks'
import { buildWriter } from '@sluice/writer/build'
import { exactClock } from '../support/clock.ts'
import { testSecretsKey } from '../support/secrets-key.ts'

const {
  POSTGRES_URL = '',
  CLICKHOUSE_URL = '',
  LOG_URL = '',
  BLOBS_URL = '',
  S3_KEY,
  S3_SECRET,
  STARTED_AT,
} = process.env

/** Time passes fifteen times as fast for the worker, so that the lease of a killed one lasts for two seconds. */
const speed = 15
const startedAt = Number(STARTED_AT)
const clock: Clock = {
  now: () => startedAt + (Date.now() - startedAt) * speed,
  sleep: (ms, signal) => sleep(ms / speed, signal),
}
const logger = createLogger({ service: 'worker', level: 'error' })
const log = await openEventLog(LOG_URL, { logger })
const backfill = await openBackfillLog(LOG_URL, log, { logger })
const deadLetters = await openDeadLetters(LOG_URL, { logger })
const postgres = openPostgres(POSTGRES_URL)
const inserter = openEventInserter(CLICKHOUSE_URL)
const eraser = openEventEraser(CLICKHOUSE_URL)
const exportReader = openExportReader(CLICKHOUSE_URL)
const eventReader = openEventReader(CLICKHOUSE_URL)
const credentials =
  S3_KEY === undefined || S3_SECRET === undefined ? undefined : { accessKeyId: S3_KEY, secretAccessKey: S3_SECRET }
const blobs = await openBlobStore(BLOBS_URL, { credentials })
const engines = {
  log,
  backfill,
  deadLetters,
  postgres,
  inserter,
  eraser,
  exportReader,
  eventReader,
  blobs,
  secrets: createSecretCipher(testSecretsKey),
  outbound: openOutbound({ allowedNetworks: ['127.0.0.0/8'] }),
}
const metrics = createMetrics()
const context = {
  logger,
  clock,
  leaseMetrics: leaseMetrics(metrics),
  metrics,
  stopping: new AbortController().signal,
}
const writer = buildWriter(engines, { logger, metrics: createMetrics(), clock: exactClock })
await supervise(
  [...writer.components, ...workerTasks({ deleteEveryMs: 0 }).map((task) => task(engines, context))],
  logger,
).start()
