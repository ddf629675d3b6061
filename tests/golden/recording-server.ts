import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An HTTP request as it came over the wire. */
export interface ReceivedRequest {
  method: string
  path: string
  /** Parameters in the order of the URL. */
  query: [name: string, value: string][]
  headers: IncomingHttpHeaders
  body: string
}

export interface GivenResponse {
  status?: number
  headers?: Readonly<Record<string, string>>
  body?: string
}

export interface RecordingServer {
  /** `127.0.0.1:<port>`. */
  host: string
  readonly received: readonly ReceivedRequest[]
  stop: () => Promise<void>
}

/** An HTTP server that records its requests and responds from `respond`, by default with 200 and no body. */
export async function startRecordingServer(
  respond: (request: ReceivedRequest, index: number) => GivenResponse = () => ({}),
): Promise<RecordingServer> {
  const received: ReceivedRequest[] = []
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const { pathname, searchParams } = new URL(incoming.url ?? '', 'http://recording')
      const request = {
        method: incoming.method ?? '',
        path: pathname,
        query: [...searchParams],
        headers: incoming.headers,
        body: Buffer.concat(chunks).toString('utf8'),
      }
      received.push(request)
      const { status = 200, headers = {}, body = '' } = respond(request, received.length - 1)
      outgoing.writeHead(status, headers).end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
