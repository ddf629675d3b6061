import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A line between two processes that can fail as networks do. */
export interface TcpProxy {
  readonly port: number
  /** Ends every connection at once; new ones are taken. */
  cut(): void
  /** Connections stay open and nothing passes, or no answers pass, until `resume`: what was held then arrives late. */
  stall(what: 'answers' | 'everything'): void
  resume(): void
  /** Ends every connection, and new ones are refused until `accept`: as if nobody listened. */
  refuse(): Promise<void>
  accept(): Promise<void>
  close(): Promise<void>
}

interface Pair {
  client: Socket
  target: Socket
}

/** Listens on a port of 127.0.0.1 of its own and hands everything on to 127.0.0.1:`targetPort`, which may come later. */
export async function tcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<Pair>()
  let stalled: 'answers' | 'everything' | undefined

  const hold = ({ client, target }: Pair): void => {
    if (stalled !== undefined) target.unpipe(client)
    if (stalled === 'everything') client.unpipe(target)
  }
  const pass = ({ client, target }: Pair): void => {
    client.unpipe(target)
    target.unpipe(client)
    client.pipe(target)
    target.pipe(client)
  }
  const server = createServer((client) => {
    const pair = { client, target: connect(targetPort, '127.0.0.1') }
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
  const cut = (): void => {
    for (const { client, target } of pairs) {
      client.resetAndDestroy()
      target.resetAndDestroy()
    }
  }
  const refuse = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve))
    cut()
    await closed
  }

  await listen(0)
  const { port } = server.address() as AddressInfo
  return {
    port,
    cut,
    stall: (what) => {
      stalled = what
      for (const pair of pairs) hold(pair)
    },
    resume: () => {
      stalled = undefined
      for (const pair of pairs) pass(pair)
    },
    refuse,
    accept: () => listen(port),
    close: async () => {
      if (server.listening) await refuse()
    },
  }
}
