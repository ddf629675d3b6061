import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startClickHouse } from '@sluice/engines/clickhouse'

export interface BalancedClickHouses {
  /** The servers' own URLs. */
  urls: readonly string[]
  /** One URL for both: each new connection goes to the other server. */
  balancedUrl: string
  stop(): Promise<void>
}

/** Starts two ClickHouse servers behind a load balancer. */
export async function startBalancedClickHouses(): Promise<BalancedClickHouses> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-balanced-'))
  const first = await startClickHouse({ dir: join(folder, 'first') })
  // Both servers must know the passwords. A folder with a lock file counts as a data folder of ClickHouse.
  mkdirSync(join(folder, 'second'))
  writeFileSync(join(folder, 'second', '.lock'), '')
  cpSync(join(folder, 'first', 'credentials.json'), join(folder, 'second', 'credentials.json'))
  const servers = [first, await startClickHouse({ dir: join(folder, 'second') })]
  const urls = servers.map(({ url }) => url)

  let connections = 0
  const balancer = createServer((client) => {
    const target = connect(Number(new URL(urls[connections++ % urls.length] ?? '').port), '127.0.0.1')
    for (const socket of [client, target]) {
      socket.on('error', () => {
        client.destroy()
        target.destroy()
      })
    }
    client.pipe(target).pipe(client)
  })
  await new Promise<void>((resolve) => balancer.listen(0, '127.0.0.1', resolve))
  const balanced = new URL(first.url)
  balanced.port = String((balancer.address() as AddressInfo).port)
  return {
    urls,
    balancedUrl: balanced.href,
    stop: async () => {
      await new Promise((resolve) => balancer.close(resolve))
      for (const server of servers) await server.stop()
      await rm(folder, { recursive: true })
    },
  }
}
