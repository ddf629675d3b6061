import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ProxyHooks {
  /** The whole of an insert has been handed to ClickHouse, which works on it. */
  onInsertSent?: (queryId: string) => void
  /** ClickHouse has done an insert; its answer goes on when this resolves, and is cut off when it returns false. */
  onInsertAnswered?: (queryId: string) => boolean
}

export interface ClickHouseProxy {
  /** The URL to give to a writer instead of ClickHouse's own. */
  url: string
  /** Replace them at will. */
  hooks: ProxyHooks
  close(): Promise<void>
}

/** Stands between a writer and ClickHouse, so that a test can act at an exact point of an insert. */
export async function clickHouseProxy(clickHouseUrl: string): Promise<ClickHouseProxy> {
  const target = new URL(clickHouseUrl)
  const proxy: { hooks: ProxyHooks } = { hooks: {} }

  function forward(request: IncomingMessage, response: ServerResponse): void {
    const search = new URL(request.url ?? '/', target.origin).searchParams
    const queryId = search.get('query_id') ?? ''
    const isInsert = queryId.startsWith('writer-')
    const onward = httpRequest(
      { host: target.hostname, port: target.port, method: request.method, path: request.url, headers: request.headers },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('end', () => {
          if (isInsert && answer.statusCode === 200 && proxy.hooks.onInsertAnswered?.(queryId) === false) {
            response.destroy()
            return
          }
          response.writeHead(answer.statusCode ?? 502, answer.headers)
          response.end(Buffer.concat(chunks))
        })
      },
    )
    onward.on('error', () => response.destroy())
    request.on('error', () => undefined)
    response.on('error', () => undefined)
    request.on('end', () => {
      if (isInsert) proxy.hooks.onInsertSent?.(queryId)
    })
    request.pipe(onward)
  }

  const server = createServer(forward)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(clickHouseUrl)
  url.port = String((server.address() as AddressInfo).port)
  return Object.assign(proxy, {
    url: url.href,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => {
          resolve()
        })
        server.closeAllConnections()
      }),
  })
}
