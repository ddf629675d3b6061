import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { TestCertificate } from './certificates.ts'

/** An engine with TLS: a proxy that terminates TLS in front of an engine without TLS. */
export interface TlsProxy {
  readonly port: number
  close(): Promise<void>
}

/** With `isPostgres` a client asks for TLS before its handshake, as the protocol of Postgres has it. */
export async function tlsProxy(
  targetUrl: string,
  { cert, key }: TestCertificate,
  { isPostgres = false }: { isPostgres?: boolean } = {},
): Promise<TlsProxy> {
  const { hostname, port } = new URL(targetUrl)
  const sockets = new Set<Socket>()
  const keep = (socket: Socket): void => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => sockets.delete(socket))
  }
  const begin = (raw: Socket): void => {
    const client = new TLSSocket(raw, { isServer: true, cert: readFileSync(cert), key: readFileSync(key) })
    const target = connect(Number(port), hostname)
    keep(target)
    client.on('error', () => target.destroy())
    client.once('close', () => target.destroy())
    target.once('close', () => client.destroy())
    client.pipe(target).pipe(client)
  }
  const server = createServer((raw) => {
    keep(raw)
    if (!isPostgres) {
      begin(raw)
      return
    }
    // The request is a message of eight bytes.
    raw.once('readable', () => {
      raw.read(8)
      raw.write('S')
      begin(raw)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
