import { mkdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ChildHandle, forkChild } from '@sluice/engines/child-process'
import { type ClickHouseUser, renderConfig, renderUsers } from '@sluice/engines/clickhouse-config'
import { waitUntil } from '@sluice/runtime/wait-until'
import { findFreePort } from '../free-port.ts'

/** A cluster of real ClickHouse servers, each of which is a shard. */
export interface ClickHouseCluster {
  /** The servers in the order of their shards. */
  servers: readonly ClusterServer[]
  /** The URL of a database `test_…` on all servers, `?cluster=` included, or on those of a cluster of `clusters`. */
  url(database: string, user?: ClickHouseUser, cluster?: string): string
  /** Removes a database `test_…`, and the one of its Distributed tables, from every server. */
  drop(database: string): Promise<void>
  stop(): Promise<void>
}

export interface ClusterServer {
  /** The URL of a database on this server alone. */
  url(database: string): string
  /** Id of the server's process since its last start. */
  pid(): number
  /** Kills the server; `start` starts it again. */
  kill(): Promise<void>
  start(): Promise<void>
}

/** The name of the cluster in the servers' `remote_servers`. */
const clusterName = 'test_shards'
const childFile = fileURLToPath(import.meta.resolve('@sluice/engines/clickhouse-child'))
const passwords: Readonly<Record<ClickHouseUser, string>> = { sluice: 'own', sluice_reader: 'reading' }

interface ClusterOptions {
  shards?: number
  /** Replicas that `system.clusters` names for each shard; the second one does not exist. */
  replicas?: 1 | 2
  /** Further clusters that the servers know: by name the places of its servers, from 0. */
  clusters?: Readonly<Record<string, readonly number[]>>
  /**
   * Bytes of a table or partition above which the servers refuse to drop it, unless the statement permits it; 50 GB by
   * default.
   */
  dropBytesMax?: number
  /** Folder of the disks `backups` of the servers, one for each; by default there are none. */
  backupsDir?: string
}

/**
 * Starts a cluster on 127.0.0.1, 127.0.0.2, …. All servers have the same HTTP port, because the URL contains one port
 * for all of them. Their native ports differ, because a server believes that every loopback address with its own native
 * port is itself.
 */
export async function startClickHouseCluster({
  shards = 2,
  replicas = 1,
  clusters = {},
  dropBytesMax,
  backupsDir,
}: ClusterOptions = {}): Promise<ClickHouseCluster> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-cluster-'))
  const httpPort = await findFreePort()
  const hosts: { host: string; nativePort: number }[] = []
  for (let shard = 1; shard <= shards; shard++) {
    hosts.push({ host: `127.0.0.${shard}`, nativePort: await findFreePort() })
  }
  const shardsXml = hosts.map(({ host, nativePort }) => {
    const members = Array.from(
      { length: replicas },
      (_, replica) => `<replica><host>${host}</host><port>${nativePort + replica}</port></replica>`,
    )
    return `<shard>${members.join('')}</shard>`
  })
  const remoteServers = Object.entries({ [clusterName]: [...hosts.keys()], ...clusters }).map(
    ([name, places]) => `<${name}>
    <secret>of this cluster</secret>
    ${places.map((place) => shardsXml[place] ?? '').join('\n    ')}
  </${name}>`,
  )
  const dropLimits =
    dropBytesMax === undefined
      ? ''
      : `
  <max_table_size_to_drop>${dropBytesMax}</max_table_size_to_drop>
  <max_partition_size_to_drop>${dropBytesMax}</max_partition_size_to_drop>`
  const own = hosts.map(
    ({ host, nativePort }) => `<clickhouse>
  <listen_host replace="1">${host}</listen_host>
  <tcp_port>${nativePort}</tcp_port>
  <remote_servers replace="1">${remoteServers.join('\n  ')}</remote_servers>${dropLimits}
</clickhouse>`,
  )
  const servers = hosts.map(({ host }, index) =>
    clusterServer({
      folder: join(folder, String(index + 1)),
      origin: `http://${host}:${httpPort}`,
      httpPort,
      config: own[index] ?? '',
      backupsDir: backupsDir === undefined ? undefined : join(backupsDir, String(index + 1)),
    }),
  )
  await Promise.all(servers.map((server) => server.start()))

  return {
    servers,
    url: (database, user = 'sluice', name = clusterName) => {
      const url = new URL(servers[0]?.url(database) ?? '')
      url.username = user
      url.password = passwords[user]
      url.searchParams.set('cluster', name)
      return url.href
    },
    drop: async (database) => {
      if (!/^test_\w+$/.test(database)) throw new Error(`${database} is not a test database`)
      for (const server of servers) {
        for (const name of [`${database}_shards`, database])
          await post(server.url(name), `DROP DATABASE IF EXISTS ${name} SYNC SETTINGS max_table_size_to_drop = 0`)
      }
    },
    stop: async () => {
      await Promise.all(servers.map((server) => server.kill()))
      await rm(folder, { recursive: true })
    },
  }
}

function clusterServer({
  folder,
  origin,
  httpPort,
  config,
  backupsDir,
}: {
  folder: string
  origin: string
  httpPort: number
  config: string
  backupsDir: string | undefined
}): ClusterServer {
  // ClickHouse merges config.d into config.xml.
  mkdirSync(join(folder, 'config.d'), { recursive: true })
  const usersFile = join(folder, 'users.xml')
  // Only tests may make a server listen on its native port.
  const users = renderUsers(passwords, { mayBackUp: backupsDir !== undefined }).replace(
    'REVOKE SYSTEM SHUTDOWN, SYSTEM LISTEN ON',
    'REVOKE SYSTEM SHUTDOWN ON',
  )
  writeFileSync(usersFile, users)
  writeFileSync(join(folder, 'config.d', 'cluster.xml'), config)
  writeFileSync(
    join(folder, 'config.xml'),
    renderConfig({
      dataDir: join(folder, 'data'),
      logFile: join(folder, 'clickhouse.log'),
      usersFile,
      httpPort,
      backupsDir,
    }),
  )
  const url = (database: string): string => `${origin.replace('//', `//sluice:${passwords.sluice}@`)}/${database}`
  let child: ChildHandle | undefined
  return {
    url,
    pid: () => child?.pid ?? -1,
    kill: async () => {
      child?.kill()
      await child?.exited
    },
    start: async () => {
      child = forkChild(childFile, [folder], { cwd: folder, stderrFile: join(folder, 'stderr.log'), hasTerminal: true })
      let failure: string | undefined
      child.onMessage((message) => {
        failure = (message as { failed: string }).failed
      })
      void child.exited.then((how) => {
        failure ??= how
      })
      await waitUntil(
        async () => {
          if (failure !== undefined) throw new Error(`ClickHouse did not start: ${failure} (see ${folder}/*.log)`)
          return (await post(url('default'), 'SELECT 1').catch(() => '')) === '1\n'
        },
        `ClickHouse at ${origin} answers`,
        300_000,
      )
      await post(url('default'), 'SYSTEM START LISTEN TCP')
    },
  }
}

async function post(url: string, sql: string): Promise<string> {
  const { origin, username, password } = new URL(url)
  const response = await fetch(origin, {
    method: 'POST',
    body: sql,
    headers: { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password },
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}
