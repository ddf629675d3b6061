import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import proxyAddr from 'proxy-addr'
import type { Client } from './route.ts'

/** Who sent a request; made anew for each process from SLUICE_TRUSTED_PROXIES. */
export interface ClientReader {
  /** By `X-Forwarded-For` and `X-Forwarded-Proto` as far as they come from trusted proxies, else by the connection. */
  read(request: IncomingMessage): Client
  /** The host that the client asked for, with its port: `X-Forwarded-Host` of a trusted proxy, else `Host`. */
  host(request: IncomingMessage): string | undefined
}

/** `trusted`: addresses, networks in CIDR form, or `loopback`, `linklocal`, `uniquelocal`. Throws for anything else. */
export function clientReader(trusted: readonly string[]): ClientReader {
  const trusts = proxyAddr.compile([...trusted])
  const isTrusted = ({ socket: { remoteAddress } }: IncomingMessage) =>
    trusted.length > 0 && remoteAddress !== undefined && trusts(remoteAddress, 0)
  /** Of a list, what the first of the proxies said. */
  const forwarded = (request: IncomingMessage, name: string) => {
    const value = isTrusted(request) ? request.headers[name] : undefined
    return typeof value === 'string' ? value.split(',', 1)[0]?.trim() : undefined
  }
  return {
    read: (request) => ({
      // Without proxies the answer is known: the library would parse the header all the same.
      address: trusted.length === 0 ? (request.socket.remoteAddress ?? '') : proxyAddr(request, trusts),
      isSecure:
        (request.socket as Partial<TLSSocket>).encrypted === true ||
        forwarded(request, 'x-forwarded-proto')?.toLowerCase() === 'https',
    }),
    host: (request) => forwarded(request, 'x-forwarded-host') ?? request.headers.host,
  }
}
