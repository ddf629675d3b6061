import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { dayMs } from '@sluice/contracts/time-units'
import { newId } from '@sluice/runtime/ids'
import { addExport, hourly, noon } from '../../tests/support/export-jobs.ts'
import { countReads, openTestPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { addDelivery } from '../../tests/support/webhooks.ts'
import { alertRuleStore } from './alert-rules.ts'
import { deliveryQueue } from './delivery-queue.ts'
import { erasureStore } from './erasures.ts'
import { type ExportStore, exportStore } from './exports.ts'
import { importStore } from './imports.ts'
import { keyStore } from './keys.ts'
import type { Postgres } from './open.ts'
import { siteStore } from './sites.ts'

// How much statements read in large tables. Their times would depend on the machine.

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres()
})

afterAll(async () => {
  await postgres.drop()
})

test('the runs of a schedule are found among those of others, also when it has none', async () => {
  const schedules: string[] = []
  for (let n = 0; n < 5; n += 1) {
    const { exportId } = await addExport(exportStore(postgres), { site: 'shop', scheduled: hourly }, noon)
    schedules.push(exportId)
  }
  const [withoutRuns = '', withRuns = '', ...others] = schedules
  await sql`
    INSERT INTO exports (export_id, schedule_id, occurrence, site_id, key_id, name, type, spec, status, created_at)
    SELECT 'run_' || n || '_' || export_id, export_id, now() + n * interval '1 hour', site_id, key_id, name, type, spec, 'expired', now()
    FROM generate_series(1, 400) n, unnest(${[withRuns, ...others]}::text[]) AS schedule (id)
    JOIN exports AS definition ON export_id = schedule.id
    ORDER BY n`.execute(postgres.db)
  await sql`VACUUM ANALYZE exports, export_schedules`.execute(postgres.db)
  const page = { limit: 10, offset: 0 }
  const works: ((store: ExportStore) => Promise<unknown>)[] = [
    (store) => store.find(withoutRuns, null),
    (store) => store.find(withRuns, null),
    (store) => store.list('shop', ['events'], page),
    (store) => store.runs(withRuns, page),
    (store) => store.find(`run_1_${withRuns}`, null),
  ]
  for (const work of works) expect(await countReads(postgres, (on) => work(exportStore(on)))).toBeLessThan(60)
})

test('an erasure reads the exports of its site that it may withdraw', async () => {
  await postgres.db.deleteFrom('exports').execute()
  await sql`
    INSERT INTO exports (export_id, site_id, key_id, name, type, spec, status, created_at, expires_at)
    SELECT 'exp_' || n, 'site-' || n % 2, 'key_1', 'all', 'events', '{}', 'expired', now(), ${new Date(noon - 2 * dayMs)}
    FROM generate_series(1, 2000) n`.execute(postgres.db)
  await sql`VACUUM ANALYZE exports`.execute(postgres.db)
  expect(await countReads(postgres, (on) => exportStore(on).withdraw('site-1', noon))).toBeLessThan(30)
  const erasure = { erasureId: newId('era'), siteId: 'blog', kind: 'site', hashes: null, before: null } as const
  await siteStore(postgres).register(['blog'])
  const deleteSite = (on: Postgres) => erasureStore(on).createForSite({ ...erasure, keyId: 'key_1' }, () => noon)
  expect(await countReads(postgres, deleteSite)).toBeLessThan(30)
})

describe('the queue of deliveries', () => {
  beforeAll(async () => {
    await sql`
      INSERT INTO endpoints (endpoint_id, site_id, owner, channel, target_box, target_fingerprint, events, active, key_id, environment, created_at, updated_at)
      SELECT 'wh_' || n, 'site-' || n, 'webhook', 'webhook', '', '', '{}', true, 'key_1', 'prod', now(), now()
      FROM generate_series(1, 2000) n`.execute(postgres.db)
    await sql`
      INSERT INTO deliveries (delivery_id, endpoint_id, source, kind, body, status, created_at, due_at)
      SELECT 'dlv_' || n, 'wh_' || n, 'alert:1', 'alert', '', 'pending', now(), ${new Date(noon + dayMs)}
      FROM generate_series(1, 2000) n`.execute(postgres.db)
    await addDelivery(postgres, 'wh_7', noon)
    await sql`VACUUM ANALYZE endpoints, deliveries`.execute(postgres.db)
  })

  test('does not look at the endpoints that have nothing due', async () => {
    const take = async (on: Postgres) => {
      expect(await deliveryQueue(on).take(noon, { max: 256, failingMax: 128 })).toHaveLength(1)
    }
    expect(await countReads(postgres, take)).toBeLessThan(60)
    const measure = async (on: Postgres) => {
      expect(await deliveryQueue(on).measure(noon)).toMatchObject({ oldestDueAt: noon })
    }
    // It counts the disabled ones among the 2,000 endpoints.
    expect(await countReads(postgres, measure)).toBeLessThan(2_060)
  })

  test('finds all endpoints when very many deliveries are due', async () => {
    const taken = await deliveryQueue(postgres).take(noon + dayMs, { max: 3_000, failingMax: 128 })
    expect(taken).toHaveLength(2_001)
  })
})

test('a page of keys is read without sorting all', async () => {
  await sql`
    INSERT INTO api_keys (key_id, name, environment, scopes, hash, hint, created_at)
    SELECT 'key_' || n, 'shop', 'prod', '{}', 'hash' || n, 'hint', now() - n * interval '1 minute'
    FROM generate_series(1, 2000) n`.execute(postgres.db)
  await sql`VACUUM ANALYZE api_keys`.execute(postgres.db)
  const list = async (on: Postgres) => {
    expect(await keyStore(on).list({ limit: 10, offset: 0 }, null)).toMatchObject({ total: 2_000 })
  }
  expect(await countReads(postgres, list)).toBeLessThan(2_060)
})

test('a few jobs are taken without reading all that are due at the same time', async () => {
  await sql`
    INSERT INTO alert_sites (site_id, judged_minute, due_at)
    SELECT 'site-' || n, now(), ${new Date(noon)}::timestamptz FROM generate_series(1, 2000) n`.execute(postgres.db)
  await sql`VACUUM ANALYZE alert_sites`.execute(postgres.db)
  expect(await countReads(postgres, (on) => alertRuleStore(on).leases.take(noon, 4))).toBeLessThan(30)
})

test('an import is taken without reading those that wait behind it', async () => {
  await sql`
    INSERT INTO imports (import_id, site_id, environment, type, status, sha256, key_id, created_at, accepted_at, due_at)
    SELECT 'imp_' || n, 'site-' || n % 2, 'prod', 'events', 'queued', repeat('a', 500), 'key_1', now(), now(), ${new Date(noon)}::timestamptz
    FROM generate_series(1, 10000) n`.execute(postgres.db)
  await sql`VACUUM ANALYZE imports`.execute(postgres.db)
  const take = async (on: Postgres) => {
    const taken = await importStore(on).leases.take(noon, 4)
    expect(taken.map(({ id }) => id).sort()).toStrictEqual(['imp_1', 'imp_2'])
  }
  expect(await countReads(postgres, take)).toBeLessThan(60)
})

test('old hashes of erasures are looked for without reading erasures that have none, or were completed later', async () => {
  await sql`
    INSERT INTO erasures (erasure_id, site_id, kind, key_hash, row_key, status, step, key_id, requested_at, completed_at)
    SELECT 'era_' || n, 'shop', 'user_id', CASE WHEN n > 2000 THEN '0' END, CASE WHEN n > 2000 THEN '1' END, 'completed',
      'done', 'key_1', completed_at, completed_at
    FROM generate_series(1, 4000) n, LATERAL (SELECT now() - CASE WHEN n > 2000 THEN 1 ELSE 9 END * interval '1 day')
      AS of (completed_at)`.execute(postgres.db)
  await sql`VACUUM ANALYZE erasures`.execute(postgres.db)
  const before = Date.now() - 2 * dayMs
  expect(await countReads(postgres, (on) => erasureStore(on).forgetHashes(before))).toBeLessThan(10)
})
