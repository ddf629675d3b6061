import { randomUUID } from 'node:crypto'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Component } from '@sluice/runtime/supervisor'
import { FatalError } from '@sluice/runtime/supervisor'
import { serverLimits } from './server-limits.ts'

/** What is under way at a stop has this long; the process has 10 s in all. */
const drainMs = 5_000

export interface HttpServer extends Component {
  /** The port it listens on, once started: the system's choice when 0 was asked for. */
  port(): number
}

/**
 * A server as a component: `stop` takes no new connections, lets what is under way end, then closes.
 * `portVariable` names the setting to change when the port is taken.
 */
export function httpServer(
  name: string,
  listener: RequestListener,
  { host, port, portVariable }: { host: string; port: number; portVariable: string },
): HttpServer {
  /**
   * Answers under way, by connection. A list, and no Set: a Set that changes with every request moves to a new table now
   * and then, and keeps the old one linked to it; with that, a tenth of all requests outlived the young generation.
   */
  const connections = new Map<Socket, ServerResponse[]>()
  let stopping = false

  const server = createServer(
    {
      maxHeaderSize: serverLimits.headerBytesMax,
      headersTimeout: serverLimits.headersTimeoutMs,
      requestTimeout: serverLimits.requestTimeoutMs,
      connectionsCheckingInterval: serverLimits.timeoutCheckMs,
      keepAliveTimeout: serverLimits.keepAliveTimeoutMs,
    },
    (request, response) => {
      const { socket } = request
      const underWay = connections.get(socket)
      underWay?.push(response)
      response.once('close', () => {
        underWay?.splice(underWay.indexOf(response), 1)
        if (stopping && underWay?.length === 0) socket.destroySoon()
      })
      if (stopping) response.setHeader('Connection', 'close')
      listener(request, response)
    },
  )
  server.maxHeadersCount = serverLimits.headersMax
  server.maxConnections = serverLimits.connectionsMax
  server.timeout = serverLimits.idleTimeoutMs
  // What Node refuses before there is a request is answered in the interface's own form.
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    socket.end(rawAnswer(error.code), () => socket.destroy())
  })
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('connection', (socket) => {
    connections.set(socket, [])
    socket.once('close', () => connections.delete(socket))
  })

  // Called by server.close(). Node's own leaves connections that never sent a request, and cuts off answers that were
  // handed over and are still on their way to a slow client.
  server.closeIdleConnections = () => {
    for (const [socket, underWay] of connections) {
      if (underWay.length === 0) socket.destroy()
      for (const response of underWay) if (!response.headersSent) response.setHeader('Connection', 'close')
    }
  }

  return {
    name,
    port: () => (server.address() as AddressInfo).port,
    start: () => listen(server, host, port, portVariable),
    stop: () => {
      stopping = true
      return close(server)
    },
  }
}

const rawStatuses: Readonly<Record<string, [status: string, error: string]>> = {
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', 'Request headers are larger than 16 KiB'],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'Request took too long'],
}

function rawAnswer(code = ''): string {
  const [status, error] = rawStatuses[code] ?? ['400 Bad Request', 'Invalid format: not a valid HTTP request']
  const body = JSON.stringify({ success: false, error, timestamp: Date.now() })
  return [
    `HTTP/1.1 ${status}`,
    'Connection: close',
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${randomUUID()}`,
    '',
    body,
  ].join('\r\n')
}

function listen(server: Server, host: string, port: number, portVariable: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const taken = error.code === 'EADDRINUSE'
      reject(
        taken ? new FatalError(`Port ${port} on ${host} is in use. Stop what uses it, or set ${portVariable}.`) : error,
      )
    })
    server.listen(port, host, resolve)
  })
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const deadline = setTimeout(() => {
      server.closeAllConnections()
    }, drainMs)
    server.close(() => {
      clearTimeout(deadline)
      resolve()
    })
  })
}
