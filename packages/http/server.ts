import { randomUUID } from 'node:crypto'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Component } from '@sluice/runtime/supervisor'
import { FatalError } from '@sluice/runtime/supervisor'
import { type ServerLimits, serverLimits } from './server-limits.ts'
import { type TlsPair, tlsSettings } from './tls.ts'
import { uploadBytesMax } from './upload.ts'

/** The listener of a service as a component. */
export interface HttpServer extends Component {
  /** The port that the server listens on, once it has started; the system chooses one for port 0. */
  port(): number
  /**
   * From now on each response ends its connection, so that clients connect again, to another process if there is a load
   * balancer. Connections and requests are still accepted.
   */
  drain(): void
  /** New connections get this certificate; only for a server with TLS. */
  replaceCertificate(pair: TlsPair): void
}

/**
 * A server as a component: `stop` refuses new connections, lets requests in flight end within `requestsMs`, then
 * closes. `portVariable` names the setting to change when the port is taken. With `tls` the server speaks HTTPS alone.
 */
export function httpServer(
  name: string,
  listener: RequestListener,
  {
    host,
    port,
    portVariable,
    requestsMs,
    limits = serverLimits,
    onRefused,
    tls,
  }: {
    host: string
    port: number
    portVariable: string
    requestsMs: number
    limits?: ServerLimits
    /** Called for each connection that is closed because `limits.connectionsMax` are open. */
    onRefused?: () => void
    tls?: TlsPair
  },
): HttpServer {
  /**
   * Responses in flight, by connection. Lists instead of Sets: when a Set changes with every request, V8 replaces its
   * table from time to time and links the old table to the new one. A tenth of all requests then outlived the young
   * generation.
   */
  const connections = new Map<Socket, ServerResponse[]>()
  /** Connections that close after their last response, because they have sent something that is not a valid request. */
  const refused = new WeakSet<Socket>()
  let isDraining = false
  let isStopping = false

  /** Gives an upload the time that its largest file may take; false for a connection without an upload. */
  function extendUpload(socket: Socket): boolean {
    const upload = connections.get(socket)?.find(({ req }) => uploadBytesMax(req) !== undefined)?.req
    if (upload === undefined) return false
    const timer = setTimeout(
      () => {
        if (uploadBytesMax(upload) !== undefined) socket.destroy()
      },
      ((uploadBytesMax(upload) ?? 0) / limits.uploadBytesPerSecondMin) * 1000,
    )
    socket.once('close', () => clearTimeout(timer))
    return true
  }

  const options = {
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: limits.timeoutCheckMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    // Node's own answer has neither the envelope nor an id.
    requireHostHeader: false,
  }
  const onRequest: RequestListener = (request, response) => {
    const { socket } = request
    if (refused.has(socket)) return
    if (request.headers.host === undefined && request.httpVersion === '1.1') {
      server.emit('clientError', new Error('The request has no Host.'), socket)
      return
    }
    const inFlight = connections.get(socket)
    inFlight?.push(response)
    response.once('close', () => {
      inFlight?.splice(inFlight.indexOf(response), 1)
      if (isStopping && inFlight?.length === 0) socket.destroySoon()
    })
    if (isDraining) response.setHeader('Connection', 'close')
    listener(request, response)
  }
  const tlsServer =
    tls && createTlsServer({ ...options, ...tlsSettings, ...tls, handshakeTimeout: limits.headersTimeoutMs }, onRequest)
  const server: Server = tlsServer ?? createServer(options, onRequest)
  server.maxHeadersCount = limits.headersMax
  server.maxConnections = limits.connectionsMax
  if (onRefused) server.on('drop', onRefused)
  server.timeout = limits.idleTimeoutMs
  // Errors that Node finds before there is a request get a response in the envelope of the interface.
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // An upload may take longer than other requests. If no more bytes arrive, the idle timeout closes it sooner.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && extendUpload(socket)) return
    const inFlight = connections.get(socket)
    // A missing list means that the TLS handshake has failed: the client would understand no response.
    if (error.code === 'ECONNRESET' || !socket.writable || inFlight === undefined) {
      socket.destroy()
      return
    }
    if (refused.has(socket)) return
    refused.add(socket)
    // Responses come in the order of the requests (RFC 9112, 9.3.2): a client would take the error for the response to
    // an earlier request, e.g. to events that are stored.
    const earlier = inFlight.filter(({ req }) => req.complete)
    const refuse = (): void => {
      if (earlier.some((response) => inFlight.includes(response))) return
      const hasAnswered = inFlight.some(({ headersSent }) => headersSent)
      if (!socket.writable || hasAnswered) socket.destroy()
      else socket.end(rawErrorResponse(error.code), () => socket.destroy())
    }
    for (const response of earlier) response.once('close', refuse)
    refuse()
  })
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  /** TCP connections, whose TLS handshake may not have ended. */
  const rawSockets = new Set<Socket>()
  tlsServer?.on('connection', (socket: Socket) => {
    rawSockets.add(socket)
    socket.once('close', () => rawSockets.delete(socket))
  })
  server.on(tlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    connections.set(socket, [])
    socket.once('close', () => connections.delete(socket))
    if (isStopping && tlsServer) socket.destroy()
  })

  // Called by server.close(). Node's own version keeps connections that never sent a request, and aborts responses that
  // a slow client is still receiving.
  server.closeIdleConnections = () => undefined

  function closeIdleConnections(): void {
    for (const [socket, inFlight] of connections) if (inFlight.length === 0) socket.destroy()
  }

  function drain(): void {
    isDraining = true
    for (const inFlight of connections.values()) {
      for (const response of inFlight) if (!response.headersSent) response.setHeader('Connection', 'close')
    }
  }

  async function stop(): Promise<void> {
    drain()
    isStopping = true
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    // Requests that have arrived in the meantime are read before connections count as idle.
    setImmediate(closeIdleConnections)
    const deadline = setTimeout(() => {
      server.closeAllConnections()
      for (const socket of rawSockets) socket.destroy()
    }, requestsMs)
    await closed
    clearTimeout(deadline)
  }

  return {
    name,
    port: () => (server.address() as AddressInfo).port,
    start: () => listen(server, host, port, portVariable),
    drain,
    replaceCertificate: (pair) => tlsServer?.setSecureContext({ ...tlsSettings, ...pair }),
    stop,
  }
}

const rawStatuses: Readonly<Record<string, [status: string, error: string]>> = {
  // Node does not tell which of the two limits is exceeded.
  HPE_HEADER_OVERFLOW: [
    '431 Request Header Fields Too Large',
    'Request line and headers are larger than 16 KiB, or there are more than 200 headers',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'Request took too long'],
}

function rawErrorResponse(code = ''): string {
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
      const isPortInUse = error.code === 'EADDRINUSE'
      reject(
        isPortInUse
          ? new FatalError(`Port ${port} on ${host} is in use. Stop what uses it, or set ${portVariable}.`)
          : error,
      )
    })
    server.listen(port, host, resolve)
  })
}
