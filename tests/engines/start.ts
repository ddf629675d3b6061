import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keepForStop, type Stoppable } from './started.ts'

const folderName = /^sluice-tests-(\d+)-/

/**
 * jest's globalSetup: one set of real engines for the whole run, in a temporary folder. An engine that you have already
 * is named by SLUICE_TEST_CLICKHOUSE_URL (and …_READER_URL) or SLUICE_TEST_POSTGRES_URL and is not started.
 * Their URLs reach the tests through these variables; tests take them by `@sluice/engines/testing`.
 */
export default async function start(): Promise<void> {
  removeLeftovers()
  const folder = mkdtempSync(join(tmpdir(), `sluice-tests-${process.pid}-`))
  chmodSync(folder, 0o711) // Postgres runs as another user when we are root, and must pass through
  const engines: Stoppable[] = []
  keepForStop({ folder, engines })

  const clickHouse = async (): Promise<void> => {
    const engine = await startClickHouse({ dir: join(folder, 'clickhouse') })
    engines.push(engine)
    process.env.SLUICE_TEST_CLICKHOUSE_URL = engine.url
    process.env.SLUICE_TEST_CLICKHOUSE_READER_URL = engine.readerUrl
  }
  const postgres = async (): Promise<void> => {
    const engine = await startPostgres({ dir: join(folder, 'postgres'), durable: false })
    engines.push(engine)
    process.env.SLUICE_TEST_POSTGRES_URL = engine.url
  }
  await Promise.all([
    process.env.SLUICE_TEST_CLICKHOUSE_URL === undefined && clickHouse(),
    process.env.SLUICE_TEST_POSTGRES_URL === undefined && postgres(),
  ])
}

/** Folders of runs that were killed. Their engines have ended with them. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(folderName.exec(name)?.[1])
    if (pid > 0 && !isAlive(pid)) rmSync(join(tmpdir(), name), { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM' // somebody else's
  }
}
