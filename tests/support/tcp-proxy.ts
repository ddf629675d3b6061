import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A TCP connection between two processes that can fail as networks and servers do. */
export interface TcpProxy {
  readonly port: number
  /** The target's URL with the address of the proxy in place of the target's. */
  readonly url: string
  /** Ends every connection; new ones are accepted. */
  reset(): void
  /** Ends each connection after so many bytes of what the target sends next; new ones are accepted. */
  endWithin(bytes: number): void
  /** Calls `alter` with what the target sends on open connections, which it may change, until it returns true. */
  alterOnce(alter: (chunk: Buffer) => boolean): void
  /** Ends every connection, and new ones are refused until `mend`: the server is gone. */
  cut(): Promise<void>
  /** Connections stay open, but no answers (or no bytes at all) pass until `mend`; then the held bytes arrive late. */
  freeze(what?: 'answers' | 'everything'): void
  /**
   * Open connections stay open but never pass bytes again, and new ones work, as when a host or a NAT entry vanishes
   * without a reset.
   */
  strand(): void
  /** Lets everything through again and accepts new connections. */
  mend(): Promise<void>
  close(): Promise<void>
}

interface Pair {
  client: Socket
  target: Socket
  isStranded?: boolean
}

/** Forwards one port of 127.0.0.1 to the host and port of `targetUrl`. Nothing has to listen there yet. */
export async function tcpProxy(targetUrl: string): Promise<TcpProxy> {
  const targetAddress = new URL(targetUrl)
  const pairs = new Set<Pair>()
  let frozen: 'answers' | 'everything' | undefined

  const hold = ({ client, target }: Pair): void => {
    if (frozen !== undefined) target.unpipe(client)
    if (frozen === 'everything') client.unpipe(target)
  }
  const pass = ({ client, target, isStranded }: Pair): void => {
    client.unpipe(target)
    target.unpipe(client)
    if (isStranded) return
    client.pipe(target)
    target.pipe(client)
  }
  const server = createServer((client) => {
    const pair: Pair = { client, target: connect(Number(targetAddress.port), targetAddress.hostname) }
    pairs.add(pair)
    const end = (): void => {
      pairs.delete(pair)
      client.destroy()
      pair.target.destroy()
    }
    for (const socket of [client, pair.target]) {
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', end)
    }
    pass(pair)
    hold(pair)
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => {
        server.off('error', reject)
        resolve()
      })
    })
  const reset = (): void => {
    for (const { client, target } of pairs) {
      client.resetAndDestroy()
      target.resetAndDestroy()
    }
  }
  const cut = async (): Promise<void> => {
    if (!server.listening) return
    const closed = new Promise((resolve) => server.close(resolve))
    reset()
    await closed
  }

  await listen(0)
  const { port } = server.address() as AddressInfo
  const url = new URL(targetUrl)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return {
    port,
    url: url.href,
    reset,
    endWithin: (bytes) => {
      for (const { client, target } of pairs) {
        target.unpipe(client)
        target.once('data', (chunk: Buffer) => client.write(chunk.subarray(0, bytes), () => client.destroy()))
        target.resume()
      }
    },
    alterOnce: (alter) => {
      let isAltered = false
      for (const { client, target } of pairs) {
        const forward = (chunk: Buffer): void => {
          isAltered ||= alter(chunk)
          client.write(chunk)
          if (!isAltered) return
          target.off('data', forward)
          target.pipe(client)
        }
        target.unpipe(client)
        target.on('data', forward)
        target.resume()
      }
    },
    cut,
    freeze: (what = 'everything') => {
      frozen = what
      for (const pair of pairs) hold(pair)
    },
    strand: () => {
      for (const pair of pairs) {
        pair.isStranded = true
        pass(pair)
      }
    },
    mend: async () => {
      frozen = undefined
      for (const pair of pairs) pass(pair)
      if (!server.listening) await listen(port)
    },
    close: cut,
  }
}
