import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { type Kysely, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { thisBuild } from '@sluice/runtime/schema-versions'
import { waitUntil } from '@sluice/runtime/wait-until'
import { addRule, type RuleParts } from '../../tests/support/alert-rules.ts'
import { describeWithPgbouncer, startPgbouncer } from '../../tests/support/pgbouncer.ts'
import { tcpProxy } from '../../tests/support/tcp-proxy.ts'
import { openTestPostgres, patientPostgres, type TestPostgres } from '../../tests/support/test-postgres.ts'
import { keyStore } from './keys.ts'
import {
  checkPostgresSchema,
  migratePostgres,
  migrations,
  migrationTimes,
  planPostgres,
  withMigrationLock,
} from './migrate.ts'
import * as keysAndSites from './migrations/001-keys-and-sites.ts'
import * as siteRegistrations from './migrations/002-site-registrations.ts'
import { openPostgres, type Postgres } from './open.ts'
import { siteStore } from './sites.ts'

const all = [
  '001-keys-and-sites',
  '002-site-registrations',
  '003-key-grants-and-site-settings',
  '004-key-rotations',
  '005-cohorts',
  '006-log-watermarks',
  '007-change-transactions',
  '010-replay-positions',
  '011-log-lanes',
  '012-imports',
  '014-exports',
  '015-erasures',
  '016-webhooks',
  '017-alerts',
  '018-summaries',
  '019-key-origins',
  '020-export-restarts',
  '021-site-deletions',
  '022-backups',
  '023-canary',
  '024-shards',
  '025-reshard',
  '026-export-cohorts',
  '027-settled-recipients',
  '028-retention-runs',
  '029-indexes',
  '030-email-tests',
  '031-erasure-turns',
  '032-erasure-hashes',
]

let postgres: TestPostgres

beforeAll(async () => {
  postgres = await openTestPostgres({ migrated: false })
})

afterAll(async () => {
  await postgres.drop()
})

beforeEach(async () => {
  await sql`DROP SCHEMA public CASCADE`.execute(postgres.db)
  await sql`CREATE SCHEMA public`.execute(postgres.db)
})

async function rejection(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'accepted',
    (error: unknown) => error,
  )
}

test('an empty database gets all migrations once', async () => {
  expect(await migratePostgres(postgres)).toStrictEqual(all)
  await checkPostgresSchema(postgres)
  expect(await migratePostgres(postgres)).toStrictEqual([])
  await checkPostgresSchema(postgres)
})

describe('a schema that is older than the build', () => {
  test('is refused with the command to run', async () => {
    expect(await rejection(checkPostgresSchema(postgres))).toMatchObject({
      retryable: false,
      internal: `The Postgres schema is older than this build (missing: ${all.join(', ')}). Run "npm run migrate".`,
    })
  })
})

describe('a schema that the next build has migrated', () => {
  const migrateWithNextBuild = (oldestBuild: number) =>
    migratePostgres(postgres, {
      ...migrations,
      '999-next': {
        oldestBuild,
        up: (db) => db.schema.alterTable('sites').addColumn('next', 'text').execute(),
      },
    })
  const applied = async () => {
    const { rows } = await sql<{ name: string }>`SELECT name FROM kysely_migration ORDER BY name`.execute(postgres.db)
    return rows.map(({ name }) => name)
  }

  test('is used by a build that can work with it, and left unchanged by its migrate', async () => {
    expect(await migratePostgres(postgres)).toStrictEqual(all)
    expect(await migrateWithNextBuild(thisBuild)).toStrictEqual(['999-next'])
    await checkPostgresSchema(postgres)
    expect(await migratePostgres(postgres)).toStrictEqual([])
    expect(await applied()).toStrictEqual([...all, '999-next'])
    expect(await siteStore(postgres).create('shop', {}, 'key')).toMatchObject({ siteId: 'shop' })
    expect(await migrateWithNextBuild(thisBuild)).toStrictEqual([])
  })

  test('is refused by the services and the migrate of an older build, and stays unchanged', async () => {
    await migrateWithNextBuild(thisBuild + 1)
    const newer = {
      retryable: false,
      internal:
        `The Postgres schema is newer than this build, ${thisBuild} ` +
        `(unknown: 999-next needs build ${thisBuild + 1}). Run the newer build.`,
    }
    expect(await rejection(checkPostgresSchema(postgres))).toMatchObject(newer)
    expect(await rejection(migratePostgres(postgres))).toMatchObject(newer)
    expect(await applied()).toStrictEqual([...all, '999-next'])
  })

  test('is refused when it does not say which builds can work with it', async () => {
    await migrateWithNextBuild(thisBuild)
    await sql`DELETE FROM migration_builds WHERE name = '999-next'`.execute(postgres.db)
    expect(await rejection(checkPostgresSchema(postgres))).toMatchObject({
      internal: expect.stringContaining('(unknown: 999-next). Run the newer build.') as unknown,
    })
  })

  test('is refused when it lacks a migration of this build', async () => {
    await migrateWithNextBuild(thisBuild)
    await sql`DELETE FROM kysely_migration WHERE name = '005-cohorts'`.execute(postgres.db)
    const other = { internal: expect.stringContaining('(unknown: 999-next; missing: 005-cohorts)') as unknown }
    expect(await rejection(checkPostgresSchema(postgres))).toMatchObject(other)
    expect(await rejection(migratePostgres(postgres))).toMatchObject(other)
  })
})

test('existing keys and sites stay unchanged, except that bootstrap keys get the highest limits', async () => {
  const before = { '001-keys-and-sites': keysAndSites, '002-site-registrations': siteRegistrations }
  const { error } = await new Migrator({
    db: postgres.db,
    provider: { getMigrations: () => Promise.resolve(before) },
  }).migrateToLatest()
  expect(error).toBeUndefined()
  await sql`
    INSERT INTO api_keys (key_id, name, environment, scopes, hash, hint, bootstrap)
    VALUES ('key_first', 'admin', 'prod', '{admin}', 'h1', 'x', true), ('key_shop', 'shop', 'dev', '{}', 'h2', 'x', false)`.execute(
    postgres.db,
  )
  await sql`INSERT INTO sites (site_id) VALUES ('shop')`.execute(postgres.db)

  expect(await migratePostgres(postgres)).toStrictEqual(all.slice(2))
  const keys = keyStore(postgres)
  const max = 10_000_000
  expect(await keys.findByHash('h1')).toMatchObject({
    scopes: ['admin'],
    siteIds: null,
    rateLimits: { events_per_minute: max, queries_per_minute: max, admin_per_minute: max },
  })
  expect(await keys.findByHash('h2')).toMatchObject({ environment: 'dev', siteIds: null, rateLimits: null })
  expect((await siteStore(postgres).find('shop'))?.settings).toStrictEqual({
    name: 'shop',
    timezone: 'UTC',
    conversion_event: null,
    retention_days: null,
  })
})

test('a table that is in use is waited for without holding up others, until the end of the wait says so', async () => {
  const newer = all.slice(all.indexOf('027-settled-recipients'))
  const older = Object.fromEntries(Object.entries(migrations).filter(([name]) => !newer.includes(name)))
  await migratePostgres(postgres, older)
  const migrating = openPostgres(postgres.url, { queryTimeoutMs: 0, lockTimeoutMs: 100 })
  const service = openPostgres(postgres.url)
  try {
    let migration: Promise<string[]> | undefined
    await postgres.db.transaction().execute(async (transaction) => {
      await sql`SELECT FROM deliveries`.execute(transaction)
      await expect(migratePostgres(migrating, migrations, { timeoutMs: 0 })).rejects.toMatchObject({
        internal: expect.stringContaining('Another transaction has used a table that is to be changed'),
      })
      migration = migratePostgres(migrating)
      const isWaiting = async () => {
        const { rows } = await sql`
          SELECT FROM pg_locks WHERE NOT granted AND relation = 'deliveries'::regclass`.execute(service.db)
        return rows.length > 0
      }
      await waitUntil(isWaiting, 'the migration waits for the table')
      await service.run((db) => sql`SELECT FROM deliveries`.execute(db))
    })
    expect(await migration).toStrictEqual(newer)
  } finally {
    await migrating.close()
    await service.close()
  }
})

test('tests of e-mail rules within the last hour still count after the upgrade', async () => {
  const older = Object.entries(migrations).filter(([name]) => name < '030-email-tests')
  await migratePostgres(postgres, Object.fromEntries(older))
  const now = Date.now()
  const addTested = async (parts: RuleParts, at: number, isTest = true) => {
    const rule = await addRule(postgres, { siteId: 'shop', ...parts })
    const entry = { from_state: 'ok', to_state: 'ok', value: 0, source: 'alert_test:1', is_test: isTest } as const
    await postgres.db
      .insertInto('alert_history')
      .values({ rule_id: rule.ruleId, minute: new Date(at), firing_id: null, ...entry })
      .execute()
    return rule.ruleId
  }
  const email = { type: 'email', target: '["ops@example.com"]' } as const
  const counted = await addTested(email, now - 3_000_000)
  await addTested(email, now - 3_601_000)
  await addTested(email, now, false)
  await addTested({}, now)
  await migratePostgres(postgres)
  expect(await postgres.db.selectFrom('email_tests').selectAll().execute()).toStrictEqual([
    { site_id: 'shop', rule_id: counted, at: new Date(now - 3_000_000) },
  ])
})

test('a migration that fails is rolled back and can be repeated', async () => {
  await sql`CREATE TABLE sites (in_the_way int)`.execute(postgres.db)
  expect(await rejection(migratePostgres(postgres))).toMatchObject({ code: '42P07' })
  const { rows } = await sql<{ found: boolean }>`SELECT to_regclass('api_keys') IS NOT NULL AS found`.execute(
    postgres.db,
  )
  expect(rows).toStrictEqual([{ found: false }])
  await sql`DROP TABLE sites`.execute(postgres.db)
  expect(await migratePostgres(postgres)).toStrictEqual(all)
})

describe('the migration lock', () => {
  test('admits one process at a time, and the waiting ones find all migrations applied', async () => {
    const processes = Array.from({ length: 4 }, () => openPostgres(postgres.url))
    let inside = 0
    const applied = await Promise.all(
      processes.map((each) =>
        withMigrationLock(each, async () => {
          expect(++inside).toBe(1)
          const names = await migratePostgres(each)
          expect(inside--).toBe(1)
          return names
        }),
      ),
    )
    expect(applied.flat()).toStrictEqual(all)
    await Promise.all(processes.map((each) => each.close()))
  })

  test('is released after a failure, which is thrown', async () => {
    const failure = new Error('no disk')
    expect(await rejection(withMigrationLock(postgres, () => Promise.reject(failure)))).toBe(failure)
    expect(await withMigrationLock(postgres, () => Promise.resolve('free'))).toBe('free')
  })

  test('leaves an error of another engine as it is', async () => {
    const failure = new Error('ClickHouse: Timeout error.')
    expect(await rejection(withMigrationLock(postgres, () => Promise.reject(failure)))).toBe(failure)
  })

  test('is awaited for longer than the time-out of statements', async () => {
    const other = openPostgres(postgres.url, { queryTimeoutMs: 4_000, ...patientPostgres })
    const entered = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const first = withMigrationLock(postgres, async () => {
      entered.resolve(undefined)
      await gate.promise
      return 'first'
    })
    await entered.promise
    const second = withMigrationLock(other, () => Promise.resolve('second'))
    const early = await Promise.race([rejection(second), new Promise((resolve) => setTimeout(resolve, 5_000, 'waits'))])
    expect(early).toBe('waits')
    gate.resolve(undefined)
    expect(await Promise.all([first, second])).toStrictEqual(['first', 'second'])
    await other.close()
  })

  test('is released when the connection of its holder ends', async () => {
    const otherPostgres = openPostgres(postgres.url)
    const entered = Promise.withResolvers<undefined>()
    const gate = Promise.withResolvers<undefined>()
    const held = rejection(
      withMigrationLock(otherPostgres, async () => {
        entered.resolve(undefined)
        await gate.promise
      }),
    )
    await entered.promise
    await endLockHolder()
    expect(await withMigrationLock(postgres, () => Promise.resolve('free'))).toBe('free')
    gate.resolve(undefined)
    expect(await held).toMatchObject({ code: 'unavailable' })
    await otherPostgres.close()
  })

  test.each([
    ['result', () => Promise.resolve('done'), 'done'],
    ['error', () => Promise.reject(new Error('ClickHouse: Timeout error.')), new Error('ClickHouse: Timeout error.')],
  ])('that work outlives is lost before the next sign of life: the %s counts', async (_what, settle, expected) => {
    const other = openPostgres(postgres.url)
    const work = async (): Promise<string> => {
      await endLockHolder()
      return settle()
    }
    const settled = withMigrationLock(other, work, { outlivesLock: true }).catch((error: unknown) => error)
    expect(await settled).toStrictEqual(expected)
    await other.close()
  })

  test('is lost before the next sign of life: an error of the work is thrown as it is', async () => {
    const other = openPostgres(postgres.url)
    const failure = new Error('ClickHouse: Timeout error.')
    const work = async (): Promise<never> => {
      await endLockHolder()
      throw failure
    }
    expect(await rejection(withMigrationLock(other, work))).toBe(failure)
    await other.close()
  })

  test('is awaited within a limit, after which a sentence says what to do and nothing was done', async () => {
    const other = openPostgres(postgres.url)
    const entered = Promise.withResolvers<number>()
    const gate = Promise.withResolvers<undefined>()
    const first = withMigrationLock(other, async () => {
      const { rows } = await sql<{ pid: number }>`
        SELECT pid FROM pg_locks WHERE locktype = 'advisory'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`.execute(postgres.db)
      entered.resolve(rows[0]?.pid ?? 0)
      await gate.promise
    })
    const pid = await entered.promise
    let isRun = false
    const second = withMigrationLock(
      postgres,
      () => {
        isRun = true
        return Promise.resolve()
      },
      { timeoutMs: 300 },
    )
    expect(await rejection(second)).toMatchObject({
      internal:
        'Another process has been migrating, resharding or restoring for more than 0.3 s. Wait for it and run the command again; only if its machine ' +
        `is gone, end its session with "SELECT pg_terminate_backend(${pid})".`,
    })
    expect(isRun).toBe(false)
    gate.resolve(undefined)
    await first
    await other.close()
  })
})

/** Ends the session that holds the migration lock. */
async function endLockHolder(): Promise<void> {
  await sql`
    SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`.execute(
    postgres.db,
  )
}

test('work fails with what to do when the connection that holds the lock is lost', async () => {
  const proxy = await tcpProxy(postgres.url)
  const pooled = openPostgres(proxy.url, { ...patientPostgres, ...migrationTimes })
  const cut = async (): Promise<never> => {
    await proxy.cut()
    return new Promise(() => undefined)
  }
  try {
    expect(await rejection(withMigrationLock(pooled, cut, { aliveMs: 50 }))).toMatchObject({
      code: 'internal',
      internal: expect.stringMatching(
        /^The connection to Postgres that kept .* was lost \(.+\)\. Run the command again\.$/,
      ) as unknown,
    })
  } finally {
    await pooled.close()
    await proxy.close()
  }
})

test('the lock is kept while the connection is alive, and ends with the work', async () => {
  const lastStatement = async (): Promise<string> => {
    const { rows } = await sql<{ query: string }>`
      SELECT query FROM pg_stat_activity
      WHERE pid = (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`.execute(postgres.db)
    return rows[0]?.query ?? ''
  }
  let query = ''
  const work = () =>
    waitUntil(async () => (query = await lastStatement()) === 'SELECT 1', 'a statement of the connection')
  await withMigrationLock(postgres, work, { aliveMs: 50 })
  expect(query).toBe('SELECT 1')
  expect(await lastStatement()).toBe('')
})

test('limits of the role do not end the statements of migrations', async () => {
  await sql`CREATE ROLE hurried LOGIN PASSWORD 'hurried'`.execute(postgres.db)
  const url = new URL(postgres.url)
  url.username = 'hurried'
  url.password = 'hurried'
  for (const limit of ['statement_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout'])
    await sql`ALTER ROLE hurried SET ${sql.raw(limit)} = '8s'`.execute(postgres.db)
  const hurried = openPostgres(url.href, { ...patientPostgres, ...migrationTimes })
  try {
    const { rows } = await sql`
      SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
        current_setting('idle_in_transaction_session_timeout') AS idle`.execute(hurried.db)
    expect(rows).toStrictEqual([{ statement: '0', lock: '2s', idle: '0' }])
  } finally {
    await hurried.close()
    await sql`DROP ROLE hurried`.execute(postgres.db)
  }
})

describeWithPgbouncer('behind PgBouncer', () => {
  const poolings: [name: string, settings: Record<string, string>][] = [
    ['transactions', { pool_mode: 'transaction' }],
    ['transactions, servers in turn', { pool_mode: 'transaction', server_round_robin: '1', min_pool_size: '3' }],
    ['transactions, one server', { pool_mode: 'transaction', default_pool_size: '1' }],
  ]
  /** Runs checks on connections through a PgBouncer, and ends the PgBouncer even if they fail. */
  const behind = async (
    settings: Readonly<Record<string, string>>,
    options: Parameters<typeof openPostgres>[1],
    check: (pooled: Postgres) => Promise<void>,
  ): Promise<void> => {
    const pgbouncer = await startPgbouncer(postgres.url, settings)
    const pooled = openPostgres(pgbouncer.url, options)
    try {
      await check(pooled)
    } finally {
      await pooled.close()
      await pgbouncer.stop()
    }
  }

  test.each(poolings)('a pool of %s is refused, and nothing is changed', async (_, settings) => {
    await behind(settings, { queryTimeoutMs: 0 }, async (pooled) => {
      expect(await rejection(withMigrationLock(pooled, () => migratePostgres(pooled)))).toMatchObject({
        internal: expect.stringMatching(/^SLUICE_POSTGRES_URL leads to a transaction pooler/) as unknown,
      })
    })
    const { rows } = await sql<{ found: boolean }>`SELECT to_regclass('sites') IS NOT NULL AS found`.execute(
      postgres.db,
    )
    expect(rows).toStrictEqual([{ found: false }])
  })

  test('a pool of sessions is used', async () => {
    await behind({ pool_mode: 'session' }, {}, async (pooled) =>
      expect(await withMigrationLock(pooled, () => migratePostgres(pooled))).toStrictEqual(all),
    )
  })
})

describe('a plan', () => {
  test('has the statements of the missing migrations, and changes nothing', async () => {
    const planned = await planPostgres(postgres)
    expect(planned.map(({ name }) => name)).toStrictEqual(all)
    expect(planned.find(({ name }) => name === '021-site-deletions')?.statements).toContainEqual({
      sql: 'ALTER TABLE erasures ADD COLUMN created_xid xid8',
      bytes: 0,
    })
    const { rows } = await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`.execute(postgres.db)
    expect(rows).toStrictEqual([])
    await migratePostgres(postgres)
    expect(await planPostgres(postgres)).toStrictEqual([])
  })

  test('has the bytes of the tables that are read or written anew', async () => {
    await migratePostgres(postgres)
    await sql`INSERT INTO sites (site_id) SELECT 'site-' || n FROM generate_series(1, 1000) n`.execute(postgres.db)
    const { rows } = await sql<{ bytes: string }>`SELECT pg_table_size('sites') AS bytes`.execute(postgres.db)
    const size = Number(rows[0]?.bytes)
    const next = {
      oldestBuild: thisBuild,
      up: async (db: Kysely<never>) => {
        await sql`CREATE INDEX sites_next ON sites (site_id)`.execute(db)
        await sql`ALTER TABLE sites ADD COLUMN next text DEFAULT 'x'`.execute(db)
        await sql`ALTER TABLE sites ALTER COLUMN site_id TYPE varchar`.execute(db)
        await sql`ALTER TABLE sites ADD COLUMN born timestamptz DEFAULT clock_timestamp()`.execute(db)
        await sql`UPDATE sites SET next = 'y'`.execute(db)
        await sql`CREATE INDEX nowhere ON missing (x)`.execute(db)
      },
    }
    const [planned] = await planPostgres(postgres, { ...migrations, '999-next': next })
    expect(planned?.statements.map(({ bytes }) => bytes)).toStrictEqual([size, 0, size, size, size, 0])
    expect(size).toBeGreaterThan(8_000)
  })
})
