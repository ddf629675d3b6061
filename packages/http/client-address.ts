import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import ipaddr from 'ipaddr.js'
import proxyAddr from 'proxy-addr'
import type { Client } from './route.ts'

/** Reads address, protocol and host of a request's client; each process makes one from SLUICE_TRUSTED_PROXIES. */
export interface ClientReader {
  /**
   * Address without a port, protocol and host from `X-Forwarded-For`, `-Proto` and `-Host` of trusted proxies, else
   * from the connection.
   */
  read(request: IncomingMessage): Client
}

/** `trusted`: addresses, networks in CIDR form, or `loopback`, `linklocal`, `uniquelocal`. Throws for anything else. */
export function clientReader(trusted: readonly string[]): ClientReader {
  const trusts = proxyAddr.compile([...trusted])
  const isTrusted = ({ socket: { remoteAddress } }: IncomingMessage) =>
    trusted.length > 0 && remoteAddress !== undefined && trusts(remoteAddress, 0)
  /** The first value of a forwarded header, which the proxy nearest to the client set. */
  const forwarded = (request: IncomingMessage, name: string) => {
    const value = isTrusted(request) ? request.headers[name] : undefined
    return typeof value === 'string' ? value.split(',', 1)[0]?.trim() : undefined
  }
  return {
    read: (request) => ({
      // Without trusted proxies, the address of the socket counts; the library would parse the header nevertheless.
      address:
        trusted.length === 0
          ? (request.socket.remoteAddress ?? '')
          : withoutPort(proxyAddr(request, (address, hop) => trusts(withoutPort(address), hop))),
      isSecure:
        (request.socket as Partial<TLSSocket>).encrypted === true ||
        forwarded(request, 'x-forwarded-proto')?.toLowerCase() === 'https',
      // A proxy may forward an empty host when it has none.
      host: [forwarded(request, 'x-forwarded-host'), request.headers.host].find((host) => host),
    }),
  }
}

/** An address with its port, as some proxies write it into `X-Forwarded-For`. */
const withPort = /^(?:(?<v4>\d+(?:\.\d+){3}):\d+|\[(?<v6>[^\]]+)\](?::\d+)?)$/

function withoutPort(text: string): string {
  const { v4, v6 } = withPort.exec(text)?.groups ?? {}
  return v4 ?? v6 ?? text
}

/** The well-known prefix of NAT64 (RFC 6052). The last 32 bits of an address are the IPv4 address behind it. */
const nat64 = ipaddr.parseCIDR('64:ff9b::/96')

/**
 * The network that a limit per address applies to. For IPv6 it is the /64 network, because one client may have all of
 * its addresses. For IPv4 it is the address itself, also in the forms of IPv6 that map it and of NAT64 (`64:ff9b::/96`):
 * clients that have nothing in common would otherwise share one limit.
 */
export function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  if (parsed.kind() === 'ipv4') return parsed.toString()
  if (parsed.match(nat64)) return parsed.toByteArray().slice(12).join('.')
  return (parsed as ipaddr.IPv6).parts.slice(0, 4).join(':')
}
