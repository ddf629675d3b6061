import { spawn } from 'node:child_process'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { hashKey } from '@sluice/access/api-key'
import { keyStore } from '@sluice/postgres/keys'
import { migratePostgres, withMigrationLock } from '@sluice/postgres/migrate'
import { openTestPostgres, type TestPostgres } from '../../../tests/support/test-postgres.ts'

let database: TestPostgres

beforeEach(async () => {
  // The command itself brings the schema up to date.
  database = await openTestPostgres({ migrated: false })
})

afterEach(async () => {
  await database.drop()
})

/**
 * Runs the command to its end; `output` is what it printed on both streams, `key` is undefined when it printed none.
 */
async function run(environment: Readonly<Record<string, string>>, given: readonly string[] = [], outputFile?: number) {
  const program = fileURLToPath(new URL('main.ts', import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, ...given], {
    env: environment,
    stdio: ['ignore', outputFile ?? 'pipe', 'pipe'],
  })
  let output = ''
  const append = (chunk: Buffer): void => {
    output += chunk.toString()
  }
  child.stdout?.on('data', append)
  child.stderr?.on('data', append)
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, output, key: /svc_prod_\w{34}/.exec(output)?.[0] }
}

describe('the command that replaces the admin key of servers', () => {
  test('creates an admin key by the URL of Postgres and revokes the one that it created before', async () => {
    const note = `This admin key of the Postgres at ${new URL(database.url).host} is not shown again.`
    const first = await run({ SLUICE_POSTGRES_URL: database.url })
    expect(first).toMatchObject({ code: 0, output: `${first.key}\n${note}\n` })
    const second = await run({ SLUICE_POSTGRES_URL: database.url })
    expect(second.output).toContain(`${note} It replaces 1 earlier admin key, which is now revoked.`)
    expect(second.key).not.toBe(first.key)

    const keys = keyStore(database)
    const stored = async (key = '') => (await keys.findByHash(hashKey(key))) ?? undefined
    expect(await stored(first.key)).toMatchObject({ scopes: ['admin'], revokedAt: expect.any(Number) as unknown })
    expect(await stored(second.key)).toMatchObject({ scopes: ['admin'], siteIds: null, revokedAt: null })
  })

  test('waits for no reshard, which holds the lock of migrations, when there is nothing to migrate', async () => {
    await migratePostgres(database)
    await withMigrationLock(database, async () => {
      expect(await run({ SLUICE_POSTGRES_URL: database.url })).toMatchObject({ code: 0 })
    })
  })

  test('refuses an argument, and the key that is in use stays', async () => {
    const { key = '' } = await run({ SLUICE_POSTGRES_URL: database.url })
    const { code, output } = await run({ SLUICE_POSTGRES_URL: database.url }, ['--list'])
    expect({ code, output }).toStrictEqual({
      code: 1,
      output: expect.stringMatching(/^Unknown option '--list'[^]*\nnpm run admin-key /) as unknown,
    })
    expect(await keyStore(database).findByHash(hashKey(key))).toMatchObject({ revokedAt: null })
  })

  test('ends with 1 and says what to do when the key could not be printed, and so is lost', async () => {
    const full = await open('/dev/full', 'w')
    try {
      const { code, output, key } = await run({ SLUICE_POSTGRES_URL: database.url }, [], full.fd)
      expect({ code, output, key }).toStrictEqual({
        code: 1,
        output:
          'The admin key was replaced, but the new one could not be printed: ENOSPC: no space left on device, write. ' +
          'Run the command again, which replaces it.\n',
        key: undefined,
      })
    } finally {
      await full.close()
    }
    const again = await run({ SLUICE_POSTGRES_URL: database.url })
    expect(again).toMatchObject({
      code: 0,
      output: expect.stringContaining('It replaces 1 earlier admin key') as unknown,
    })
  })

  test('ends with 1 and names the variable when no URL is given', async () => {
    const { code, output, key } = await run({})
    expect({ code, key }).toStrictEqual({ code: 1, key: undefined })
    expect(output).toMatch(/^The configuration has 1 mistake:\n {2}- SLUICE_POSTGRES_URL is required/)
  })

  test('reads the URL from a file, and ends with 1 when both are given', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-admin-key-'))
    try {
      const file = join(folder, 'postgres-url')
      await writeFile(file, `${database.url}\n`)
      const { code, key } = await run({ SLUICE_POSTGRES_URL_FILE: file })
      expect({ code, isPrinted: key !== undefined }).toStrictEqual({ code: 0, isPrinted: true })
      const both = await run({ SLUICE_POSTGRES_URL: database.url, SLUICE_POSTGRES_URL_FILE: file })
      expect(both).toStrictEqual({
        code: 1,
        output:
          'The configuration has 1 mistake:\n' +
          '  - SLUICE_POSTGRES_URL and SLUICE_POSTGRES_URL_FILE are both set: unset one of them\n' +
          'docs/configuration.md lists all variables.\n',
        key: undefined,
      })
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
