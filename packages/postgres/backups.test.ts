import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { type BackupStore, backupStore } from './backups.ts'

let postgres: TestPostgres
let backups: BackupStore

beforeAll(async () => {
  postgres = await openTestPostgres()
  backups = backupStore(postgres)
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await sql`DELETE FROM backups`.execute(postgres.db)
})

const at = (text: string): number => Date.parse(`2026-01-01T${text}Z`)
const whole = {
  backupId: 'bak_whole',
  kind: 'full',
  target: 'file:a',
  startedAt: at('00:00'),
  finishedAt: at('01:00'),
} as const

test('the last backup of the events counts, with the time at which it was finished', async () => {
  expect(await backups.lastFinishedAt()).toBeUndefined()
  await backups.add({ ...whole, backupId: 'bak_earlier', finishedAt: at('00:30') })
  await backups.add(whole)
  await backups.add({ ...whole, finishedAt: at('09:00') })
  await backups.add({ ...whole, backupId: 'bak_dump', kind: 'postgres', finishedAt: at('02:00') })
  expect(await backups.lastFinishedAt()).toBe(at('01:00'))
})

test('without a time, a backup was finished now', async () => {
  const before = Date.now() - 60_000
  await backups.add({ backupId: 'bak_now', kind: 'incremental', target: 'file:a', startedAt: Date.now() })
  expect(await backups.lastFinishedAt()).toBeGreaterThan(before)
})

test('however many dumps of Postgres come after it, the last backup of the events is kept, and the table is bounded', async () => {
  await backups.add(whole)
  await sql`
    INSERT INTO backups SELECT 'bak_' || n, 'postgres', 'file:a', now(), now() - n * interval '1 minute'
    FROM generate_series(1, 1500) AS n`.execute(postgres.db)
  await backups.add({ backupId: 'bak_dump', kind: 'postgres', target: 'file:a', startedAt: Date.now() })
  expect(await backups.lastFinishedAt()).toBe(at('01:00'))
  const { rows } = await sql`SELECT kind, count(*)::int AS kept FROM backups GROUP BY kind ORDER BY kind`.execute(
    postgres.db,
  )
  expect(rows).toStrictEqual([
    { kind: 'full', kept: 1 },
    { kind: 'postgres', kept: 1_000 },
  ])
})
