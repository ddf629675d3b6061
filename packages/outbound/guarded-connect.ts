import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { buildConnector } from 'undici'
import type { AddressRules } from './address-rules.ts'
import { OutboundFailure } from './describe-failure.ts'
import type { Resolve } from './resolve-host.ts'
import { requireAllowedLiteral } from './target-url.ts'

export interface GuardOptions {
  rules: AddressRules
  resolve: Resolve
  proxy: URL | undefined
  /** PEM certificates to trust in addition to Node's; for tests. */
  ca: string | undefined
}

/** Longest wait for an address that does not answer, while another address is left, in ms. */
const dialTimeoutMs = 3_000
/** Maximum number of addresses of a name that are dialled. Further ones are ignored. */
const dialledMax = 4
const ignore = (): void => undefined

/**
 * The guard against server-side request forgery (SSRF): the connector of one attempt, for a client of undici. The check
 * and the connection are one step: the connector checks an address and dials exactly that address. A name that returns
 * other addresses afterwards therefore gains nothing. A literal address is checked like one from DNS (a `lookup`
 * function would not see it). Only the allowed addresses of a name are dialled, IPv4 first. The socket is destroyed
 * when `signal` aborts.
 */
export function guardedConnect(options: GuardOptions, signal: AbortSignal): buildConnector.connector {
  return (target, callback) => {
    openConnection(target, options, signal).then(
      (socket) => callback(null, socket),
      (error: unknown) => callback(error as Error, null),
    )
  }
}

async function openConnection(
  { hostname, port, protocol }: buildConnector.Options,
  { rules, resolve, proxy, ca }: GuardOptions,
  signal: AbortSignal,
): Promise<Socket> {
  requireAllowedLiteral(hostname, rules)
  const portNumber = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
  const plain = proxy
    ? await tunnel(proxy, `${isIP(hostname) === 6 ? `[${hostname}]` : hostname}:${portNumber}`, ca, signal)
    : await dialFirst(await allowedAddresses(hostname, { rules, resolve }, signal), portNumber, signal)
  return protocol === 'https:' ? encrypt(plain, hostname, ca, signal) : plain
}

async function allowedAddresses(
  hostname: string,
  { rules, resolve }: Pick<GuardOptions, 'rules' | 'resolve'>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (isIP(hostname) !== 0) return [hostname]
  const addresses = await resolve(hostname, signal)
  const allowed = addresses.filter((address) => rules.isAllowed(address))
  if (allowed.length === 0) throw new OutboundFailure("the host's address is not allowed")
  return dialledAddresses(allowed)
}

/**
 * The addresses of a name that are dialled, in this order: IPv4 first, and at least one IPv6 address if there is one,
 * because a host without IPv4 reaches a name with many IPv4 addresses by IPv6 alone.
 */
export function dialledAddresses(addresses: readonly string[]): readonly string[] {
  const [ipv4 = [], ipv6 = []] = [4, 6].map((family) => addresses.filter((address) => isIP(address) === family))
  return [...ipv4.slice(0, ipv6.length === 0 ? dialledMax : dialledMax - 1), ...ipv6].slice(0, dialledMax)
}

async function dialFirst(addresses: readonly string[], port: number, signal: AbortSignal): Promise<Socket> {
  const failures: unknown[] = []
  for (const [n, address] of addresses.entries()) {
    signal.throwIfAborted()
    try {
      return await dial(address, port, n === addresses.length - 1 ? undefined : dialTimeoutMs, signal)
    } catch (error) {
      failures.push(error)
    }
  }
  throw failures[0]
}

function dial(address: string, port: number, timeoutMs: number | undefined, signal: AbortSignal): Promise<Socket> {
  const socket = connect({ host: address, port, noDelay: true, autoSelectFamily: false })
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => socket.destroy(noConnection()), timeoutMs)
  return untilOpen(socket, 'connect', signal).finally(() => clearTimeout(timer))
}

function noConnection(): OutboundFailure {
  return new OutboundFailure('no connection in time')
}

/**
 * TLS over an open connection. The certificate is checked against `hostname`. If `hostname` is a name, it is also the
 * SNI.
 */
function encrypt(plain: Socket, hostname: string, ca: string | undefined, signal: AbortSignal): Promise<Socket> {
  const name = hostname.replace(/\.$/, '')
  const socket = connectTls({
    socket: plain,
    host: name,
    ALPNProtocols: ['http/1.1'],
    ...(isIP(name) === 0 && { servername: name }),
    ...(ca !== undefined && { ca }),
  })
  return untilOpen(socket, 'secureConnect', signal)
}

/**
 * Resolves to the socket at its event; rejects when the socket closes before that. The socket is destroyed when
 * `signal` aborts, even after the event.
 */
function untilOpen(socket: Socket, event: 'connect' | 'secureConnect', signal: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const destroy = (): void => void socket.destroy()
  if (signal.aborted) destroy()
  signal.addEventListener('abort', destroy, { once: true })
  socket.once(event, () => resolve(socket))
  socket.once('error', reject)
  socket.once('close', () => {
    signal.removeEventListener('abort', destroy)
    reject(new OutboundFailure('connection closed'))
  })
  // When a later error occurs, the socket may have no other listener.
  socket.on('error', ignore)
  return promise
}

/**
 * A tunnel to `authority` (`host:port`) through a proxy of the operator. The proxy checks names and addresses itself.
 */
function tunnel(proxy: URL, authority: string, ca: string | undefined, signal: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const host = proxy.hostname.replace(/^\[|\]$/g, '')
  const request = (proxy.protocol === 'https:' ? requestHttps : requestHttp)(proxy, {
    method: 'CONNECT',
    path: authority,
    agent: false,
    signal,
    headers: { host: authority, ...proxyAuthorization(proxy) },
    // Without a servername, Node would take that of the Host header, the receiver, for SNI and for the check of the
    // proxy's certificate. SNI can't hold an address: with '', the certificate is checked against the address.
    servername: isIP(host) === 0 ? host : '',
    ...(ca !== undefined && { ca }),
  })
  request.once('connect', ({ statusCode = 0 }, socket) => {
    socket.on('error', ignore)
    const destroy = (): void => void socket.destroy()
    signal.addEventListener('abort', destroy, { once: true })
    socket.once('close', () => signal.removeEventListener('abort', destroy))
    if (statusCode === 200) {
      resolve(socket)
      return
    }
    socket.destroy()
    reject(new OutboundFailure(`the proxy refused the connection with status ${statusCode}`))
  })
  request.once('error', () => reject(new OutboundFailure('the proxy cannot be reached')))
  request.end()
  return promise
}

function proxyAuthorization({ username, password }: URL): Record<string, string> {
  if (username === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
}
