import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals'
import { type ImportStore, importStore } from '@sluice/postgres/imports'
import { waitUntil } from '@sluice/runtime/wait-until'
import { commitsOfSegments, noteCommits } from '../support/import-commits.ts'
import { addImport } from '../support/import-jobs.ts'
import { openTestPostgres, type TestPostgres } from '../support/test-postgres.ts'

const segments = 6
let postgres: TestPostgres
let store: ImportStore
const workers: ChildProcess[] = []

beforeAll(async () => {
  postgres = await openTestPostgres()
  store = importStore(postgres)
  await noteCommits(postgres)
})

afterEach(() => {
  for (const worker of workers) worker.kill('SIGKILL')
})

afterAll(async () => {
  await postgres.drop()
})

/** A worker process, and how many units it has begun. */
function startWorker(): { process: ChildProcess; begun: () => number } {
  const program = fileURLToPath(new URL('worker-process.ts', import.meta.url))
  const child = spawn(process.execPath, [program], {
    env: { PATH: process.env.PATH, POSTGRES_URL: postgres.url },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  workers.push(child)
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString('utf8')
  })
  return { process: child, begun: () => output.split('working on').length - 1 }
}

test('processes that are stopped and continued, or killed, record every segment exactly once', async () => {
  const { importId } = await addImport(store, { segments }, 0)
  const processed = async () => (await store.find(importId, null))?.processedRecords ?? 0
  const frozen = startWorker()
  await waitUntil(() => frozen.begun() >= 2, 'a unit has begun')
  frozen.process.kill('SIGSTOP')
  const before = await processed()

  const killed = startWorker()
  await waitUntil(() => killed.begun() >= 2, 'another process has the import')
  expect(await processed()).toBeGreaterThan(before)
  frozen.process.kill('SIGCONT')
  killed.process.kill('SIGKILL')

  const isCompleted = async () => (await store.find(importId, null))?.status === 'completed'
  await waitUntil(isCompleted, 'the import is completed')
  const once = Array.from({ length: segments }, (_, n) => `${importId}/${n}`)
  expect(await commitsOfSegments(postgres)).toStrictEqual(once)
  const ended = new Promise((resolve) => frozen.process.once('exit', resolve))
  frozen.process.kill('SIGTERM')
  expect(await ended).toBe(0)
})
