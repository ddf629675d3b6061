import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { denyAll } from '@sluice/access/access'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { openBackfillLog, openEventLog } from '@sluice/event-log/open-event-log'
import { openEventEraser } from '@sluice/event-store/erasures/event-eraser'
import { type EventReader, openEventReader } from '@sluice/event-store/event-reader'
import { openExportReader } from '@sluice/event-store/exports/export-reader'
import { openEventInserter } from '@sluice/event-store/insert/event-inserter'
import { type LeaseOptions, runLeases } from '@sluice/leases/run-leases'
import { openOutbound } from '@sluice/outbound/open-outbound'
import type { ImportRecord } from '@sluice/postgres/import-record'
import { importStore } from '@sluice/postgres/imports'
import { createMetrics } from '@sluice/runtime/metrics'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { waitUntil } from '@sluice/runtime/wait-until'
import { capturedLogger } from '../../tests/support/captured-logger.ts'
import { exactClock } from '../../tests/support/clock.ts'
import { addImport } from '../../tests/support/import-jobs.ts'
import { testSecretsKey } from '../../tests/support/secrets-key.ts'
import { startStopwatch } from '../../tests/support/stopwatch.ts'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { request, startTestService, type TestService } from '../../tests/support/test-service.ts'
import { buildWorker } from './build.ts'
import type { WorkerEngines, WorkerTask } from './worker-task.ts'

let postgres: TestPostgres
let engines: WorkerEngines
let eventReader: EventReader
let folder: string
let service: TestService | undefined

beforeAll(async () => {
  postgres = await openTestPostgres()
  folder = await mkdtemp(join(tmpdir(), 'sluice-worker-'))
  const url = `file:${join(folder, 'log')}`
  const { logger } = capturedLogger()
  const log = await openEventLog(url, { logger })
  const backfill = await openBackfillLog(url, log, { logger })
  // No server listens there.
  const blobs = await openBlobStore(`file:${join(folder, 'blobs')}`)
  const inserter = openEventInserter('http://127.0.0.1:1/sluice')
  const exportReader = openExportReader('http://127.0.0.1:1/sluice')
  eventReader = openEventReader('http://127.0.0.1:1/sluice')
  engines = {
    log,
    backfill,
    postgres,
    blobs,
    inserter,
    exportReader,
    eventReader,
    eraser: openEventEraser('http://127.0.0.1:1/sluice'),
    secrets: createSecretCipher(testSecretsKey),
    outbound: openOutbound({ allowedNetworks: ['127.0.0.0/8'] }),
  }
})

afterAll(async () => {
  await engines.inserter.close()
  await engines.eraser.close()
  await engines.exportReader.close()
  await eventReader.close()
  await engines.backfill.close()
  await engines.log.close()
  await postgres.drop()
  await rm(folder, { recursive: true })
})

afterEach(async () => {
  await service?.stop()
  service = undefined
})

/** Imports as a kind of job, with some work. */
function imports(work: LeaseOptions<ImportRecord>['work']): WorkerTask {
  return ({ postgres }, context) =>
    runLeases({ ...context, kind: 'import', table: importStore(postgres).leases, work, concurrency: 1 })
}

async function start(...tasks: WorkerTask[]): Promise<TestService> {
  const captured = capturedLogger()
  const context = { logger: captured.logger, metrics: createMetrics(), clock: exactClock }
  service = await startTestService(buildWorker(engines, context, { tasks }), denyAll, captured)
  return service
}

test('tasks that are wired are worked on', async () => {
  const store = importStore(postgres)
  await start(
    imports(async (_job, lease) => {
      await store.complete(lease, Date.now())
      return { next: 'done' }
    }),
  )
  const { importId } = await addImport(store, {}, Date.now())
  await waitUntil(async () => (await store.find(importId, null))?.status === 'completed', 'the import is completed')
})

test('/readyz names the engines that are missing, and /healthz answers', async () => {
  const { url } = await start()
  const { status, body } = await request(`${url}/readyz`)
  expect([status, body.error]).toStrictEqual([503, 'Not ready: clickhouse'])
  expect((await request(`${url}/healthz`)).status).toBe(200)
})

test('a stop ends within 10 s, whatever a unit does, and leaves its job to the other workers', async () => {
  const store = importStore(postgres)
  let isWorking = false
  const { stop } = await start(
    imports(() => {
      isWorking = true
      return new Promise(() => undefined)
    }),
  )
  const { importId } = await addImport(store, {}, Date.now())
  await waitUntil(() => isWorking, 'the unit runs')
  const startedAt = performance.now()
  const elapsedMs = startStopwatch()
  await stop()
  expect(elapsedMs()).toBeLessThan(10_000)
  expect(performance.now() - startedAt).toBeGreaterThan(4_900)
  const taken = await store.leases.take(Date.now(), 1)
  expect(taken.map(({ id }) => id)).toStrictEqual([importId])
})
