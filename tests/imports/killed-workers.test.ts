import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from '@jest/globals'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { importStore } from '@sluice/postgres/imports'
import { waitUntil } from '@sluice/runtime/wait-until'
import { removeUnneededImportFiles } from '@sluice/worker/imports/import-files'
import { describeWithS3, testClickHouse, testS3 } from '../support/engines/test-engines.ts'
import { csvOf, expectedRows, generateEvents, storedRows } from '../support/imported-events.ts'
import { openTestPostgres } from '../support/test-postgres.ts'
import { uploadFile } from '../support/uploaded-import.ts'

/** A killed worker's lease ends after 30 s; on a busy machine, a segment takes as long. */
const patienceMs = 300_000
const processes: ChildProcess[] = []

afterEach(() => {
  for (const each of processes.splice(0)) each.kill('SIGKILL')
})

function startProcess(environment: Readonly<Record<string, string>>): ChildProcess {
  const file = fileURLToPath(new URL('worker-process.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...environment },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  processes.push(child)
  return child
}

/** Kills the worker at 10, 50 and 90 % of an import, and compares the stored rows and errors with the file. */
async function killThrice(
  rows: number,
  blobsUrl: string,
  s3?: { accessKeyId: string; secretAccessKey: string },
): Promise<void> {
  const events = generateEvents(rows)
  // Every tenth row is followed by one that fails.
  const failed = rows / 10
  const records = rows + failed
  const database = testClickHouse()
  await database.create()
  const clickHouse = openClickHouse(database.url)
  const postgres = await openTestPostgres()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-killed-'))
  const imports = importStore(postgres)
  const blobs = await openBlobStore(blobsUrl, { credentials: s3 })
  try {
    const { importId, siteId } = await uploadFile({ imports, blobs }, csvOf(events), { segmentRecords: records / 22 })
    const environment = {
      POSTGRES_URL: postgres.url,
      CLICKHOUSE_URL: database.url,
      LOG_URL: `file:${join(folder, 'log')}`,
      BLOBS_URL: blobsUrl,
      STARTED_AT: String(Date.now()),
      ...(s3 && { S3_KEY: s3.accessKeyId, S3_SECRET: s3.secretAccessKey }),
    }
    const record = async () => (await imports.find(importId, null)) ?? { status: 'missing', processedRecords: 0 }
    for (const share of [0.1, 0.5, 0.9]) {
      const child = startProcess(environment)
      const isThere = async () => (await record()).processedRecords >= share * records
      await waitUntil(isThere, `${share * 100} % are processed`, patienceMs)
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
      expect((await record()).status).toBe('processing')
    }
    startProcess(environment)
    await waitUntil(async () => (await record()).status === 'completed', 'the import is completed', patienceMs)
    expect(await record()).toMatchObject({ totalRecords: records, processedRecords: records, failedRecords: failed })
    expect(await storedRows(clickHouse, siteId)).toStrictEqual(expectedRows(events))

    const names: string[] = []
    for await (const { name } of blobs.list('')) names.push(name)
    expect(names.sort()).toStrictEqual(Array.from({ length: 22 }, (_, n) => `imports/${importId}/errors/${n}`).sort())
    // Incomplete files of killed processes are removed a day later, errors after a month.
    const later = (days: number) => ({ now: () => Date.now() + days * 86_400_000 })
    await removeUnneededImportFiles({ blobs, imports, clock: later(2) })
    for await (const upload of blobs.listMultipartUploads()) expect(upload).toBeUndefined()
    await removeUnneededImportFiles({ blobs, imports, clock: later(400) })
    for await (const { name } of blobs.list('')) expect(name).toBeUndefined()
  } finally {
    for (const each of processes.splice(0)) each.kill('SIGKILL')
    await blobs.close()
    await clickHouse.close()
    await postgres.drop()
    await database.drop()
    await rm(folder, { recursive: true, force: true })
  }
}

test(
  'a worker that is killed at 10, 50 and 90 % of an import stores every record once',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-blobs-'))
    try {
      await killThrice(20_000, `file:${folder}`)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
  4 * patienceMs,
)

describeWithS3('with its files in S3', () => {
  test(
    'so does one whose worker is killed as often',
    async () => {
      const { url, credentials } = testS3()
      await killThrice(10_000, url, credentials)
    },
    4 * patienceMs,
  )
})
