import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { migrateClickHouse, migrationFolder } from '@sluice/event-store/migrate'
import { migratePostgres, migrations } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { thisBuild } from '@sluice/runtime/schema-versions'
import { type Cluster, createCluster } from '../support/cluster.ts'
import { describeWithServices } from '../support/engines/test-engines.ts'
import { spawnProgram, spawnService, startService } from '../support/service-process.ts'

describeWithServices('after the next release has migrated', () => {
  const services = ['gateway', 'writer', 'query', 'worker'] as const
  let cluster: Cluster
  let postgresMigrations = migrations
  let folder: string

  beforeAll(async () => {
    cluster = await createCluster()
    folder = await mkdtemp(join(tmpdir(), 'sluice-next-'))
    await cp(migrationFolder, folder, { recursive: true })
  })

  afterAll(async () => {
    await rm(folder, { recursive: true })
    await cluster.drop()
  })

  /** Adds a migration to those of the next release, with which `oldestBuild` can work, and migrates both engines. */
  async function migrateWith(name: string, oldestBuild: number): Promise<void> {
    postgresMigrations = {
      ...postgresMigrations,
      [name]: { oldestBuild, up: (db) => db.schema.alterTable('sites').addColumn(name, 'text').execute() },
    }
    const postgres = openPostgres(cluster.environment.writer.SLUICE_POSTGRES_URL ?? '')
    await migratePostgres(postgres, postgresMigrations)
    await postgres.close()
    const sql = `-- Oldest build: ${oldestBuild}\nALTER TABLE events ADD COLUMN IF NOT EXISTS "${name}" String;\n`
    await writeFile(join(folder, `${name}.sql`), sql)
    await migrateClickHouse(cluster.clickHouseUrl, pathToFileURL(`${folder}/`))
  }

  it('this one still migrates and starts, without a change of a database', async () => {
    await migrateWith('998-next', thisBuild)
    const migrate = await spawnProgram('admin/migrate/main', cluster.environment.writer)
    expect(await migrate.exited).toBe(0)
    expect(migrate.output()).toContain('Postgres: up to date\nClickHouse: up to date')
    await Promise.all(
      services.map(async (name) => {
        const service = await startService(name, cluster.environment[name])
        expect(await service.stop()).toBe(0)
      }),
    )
  })

  it('this one ends and says what to do if a migration needs a newer build', async () => {
    await migrateWith('999-later', thisBuild + 1)
    await Promise.all(
      services.map(async (name) => {
        const service = await spawnService(name, cluster.environment[name])
        expect(await service.exited).toBe(1)
        expect(service.output()).toContain(`999-later needs build ${thisBuild + 1}). Run the newer build.`)
      }),
    )
  })
})
