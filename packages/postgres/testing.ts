// What tests use of Postgres: a database of their own, keys in it, and a way to it that can be cut.
import { generateKey, hashKey, keyHint } from '@sluice/contracts/api-key'
import { testPostgres } from '@sluice/engines/testing'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { sql } from 'kysely'
import { ulid } from 'ulid'
import type { KeyStore, NewKey } from './keys.ts'
import { migratePostgres } from './migrate.ts'
import { openPostgres, type Postgres } from './open.ts'

export interface TestPostgres extends Postgres {
  url: string
  /** Closes the pool and removes the database. */
  drop: () => Promise<void>
}

/** A fresh database on the test run's Postgres, with the schema of this build unless `migrated` is false. */
export async function openTestPostgres({ migrated = true } = {}): Promise<TestPostgres> {
  const database = await testPostgres()
  const postgres = openPostgres(database.url)
  if (migrated) await migratePostgres(postgres)
  return {
    ...postgres,
    url: database.url,
    drop: async () => {
      await postgres.close()
      await database.drop()
    },
  }
}

/** A key that may send events of every site, unless said otherwise: as the store takes it, and the key itself. */
export function newTestKey(parts: Partial<NewKey> = {}): { key: string; newKey: NewKey } {
  const { environment = 'prod' } = parts
  const key = generateKey(environment)
  return {
    key,
    newKey: {
      keyId: `key_${ulid()}`,
      name: 'test',
      environment,
      scopes: ['events:write'],
      siteIds: null,
      rateLimits: null,
      hash: hashKey(key),
      hint: keyHint(key),
      expiresAt: null,
      bootstrap: false,
      ...parts,
    },
  }
}

/** Stores such a key. */
export async function createTestKey(
  store: Pick<KeyStore, 'create'>,
  parts: Partial<NewKey> = {},
): Promise<{ key: string; keyId: string }> {
  const { key, newKey } = newTestKey(parts)
  const record = await store.create(newKey, null)
  if (!record) throw new Error('the key was there already')
  return { key, keyId: record.keyId }
}

/** As if every key and site had been changed long ago: polls look back for some seconds, and hear of what is changed now. */
export async function forgetChanges({ db }: Postgres): Promise<void> {
  const changed_at = new Date(Date.now() - 60_000)
  await db.updateTable('api_keys').set({ changed_at }).execute()
  await db.updateTable('sites').set({ changed_at }).where('changed_at', 'is not', null).execute()
}

/** Every row of every table. */
export async function allRows({ db }: Pick<Postgres, 'db'>): Promise<unknown[]> {
  const { rows: tables } = await sql<{ name: string }>`
    SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`.execute(db)
  return Promise.all(tables.map(async ({ name }) => (await sql`SELECT * FROM ${sql.table(name)}`.execute(db)).rows))
}

export interface Cuttable {
  /** The same database through this way. */
  url: string
  /** Ends all connections and refuses new ones, as a server that is gone. */
  cut: () => Promise<void>
  /** Holds back everything, as a server or a network that hangs. */
  freeze: () => void
  /** Lets everything through again. */
  mend: () => Promise<void>
  close: () => Promise<void>
}

/** A TCP proxy before the Postgres of `url`, on a port of its own that it keeps. */
export async function cuttable(url: string): Promise<Cuttable> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  let frozen = false

  const server = createServer((client) => {
    const onward = connect(Number(target.port), target.hostname)
    for (const [socket, other] of [
      [client, onward],
      [onward, client],
    ] as const) {
      sockets.add(socket)
      if (frozen) socket.pause()
      socket.on('data', (chunk) => other.write(chunk))
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      if (frozen) socket.pause()
    }
  })
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => {
        server.removeListener('error', reject)
        resolve()
      })
    })
  const cut = () =>
    new Promise<void>((resolve) => {
      server.close(() => {
        resolve()
      })
      for (const socket of sockets) socket.destroy()
    })

  await listen(0)
  const { port } = server.address() as AddressInfo
  const proxied = new URL(url)
  proxied.port = String(port)
  return {
    url: proxied.href,
    cut,
    freeze: () => {
      frozen = true
      for (const socket of sockets) socket.pause()
    },
    mend: async () => {
      frozen = false
      for (const socket of sockets) socket.resume()
      if (!server.listening) await listen(port)
    },
    close: cut,
  }
}
