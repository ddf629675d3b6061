import { addressRules } from './address-rules.ts'
import { mail } from './mail.ts'
import type { Outbound, OutboundOptions } from './outbound.ts'
import { post } from './post.ts'
import { dnsResolver } from './resolve-host.ts'

const defaultTimeoutMs = 15_000

/** Throws an Error when a network or the proxy's URL is not valid. Opens no connection. */
export function openOutbound({ allowedNetworks, refusedNetworks, proxy, smtp, ...options }: OutboundOptions): Outbound {
  const { timeoutMs = defaultTimeoutMs, now = Date.now, resolve = dnsResolver(), ca } = options
  const closed = new AbortController()
  const guard = {
    rules: addressRules(allowedNetworks, refusedNetworks),
    resolve,
    proxy: proxy === undefined ? undefined : new URL(proxy),
    ca,
  }
  const untilClosed = (signal: AbortSignal): AbortSignal => AbortSignal.any([signal, closed.signal])
  return {
    post: (request, signal) => post(request, { ...guard, timeoutMs, now }, untilClosed(signal)),
    mail: (message, signal) => mail(message, { smtp, timeoutMs }, untilClosed(signal)),
    close: () => {
      closed.abort(new Error('closed'))
      return Promise.resolve()
    },
  }
}
