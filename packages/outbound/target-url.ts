import { isIP } from 'node:net'
import { invalidField } from '@sluice/runtime/errors'
import { type AddressRules, addressRules } from './address-rules.ts'
import type { OutboundOptions } from './outbound.ts'
import { dnsResolver, type Resolve } from './resolve-host.ts'

/** A target that must not be used. The message continues the name of a field. */
export class TargetRefusedError extends Error {
  override readonly name = 'TargetRefusedError'
}

/** One resolver for all requests of the process, because look-ups by the operating system take turns. */
const machineResolver = dnsResolver()
/** Time limit for resolving names when a URL is saved, in ms. */
const checkTimeoutMs = 2_000

/**
 * Checks a URL that a user wants to save: scheme, credentials, port, and the addresses of the host. If one of several
 * addresses is not allowed, the name is refused: it is a mistake or an attack, and the user learns of it now. A name
 * that can't be resolved is accepted, because the name may be new, or its servers unavailable. The check only informs
 * the user early: each connection checks the addresses again. Throws AppError `invalid_field` that names `field`.
 */
export async function checkTarget(
  url: string,
  field: string,
  options: Pick<OutboundOptions, 'allowedNetworks' | 'refusedNetworks' | 'resolve' | 'proxy'>,
): Promise<void> {
  try {
    const { hostname } = parseTarget(url)
    const rules = addressRules(options.allowedNetworks, options.refusedNetworks)
    requireAllowedLiteral(hostname, rules)
    // With a proxy, this machine may not know the names that the proxy knows.
    if (isIP(hostname) !== 0 || options.proxy !== undefined) return
    const addresses = await resolveInTime(hostname, options.resolve ?? machineResolver)
    if (addresses?.every((address) => rules.isAllowed(address)) === false)
      throw new TargetRefusedError(
        'names a host whose address is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS',
      )
  } catch (error) {
    throw error instanceof TargetRefusedError ? invalidField(field, error.message) : error
  }
}

async function resolveInTime(hostname: string, resolve: Resolve): Promise<readonly string[] | undefined> {
  try {
    return await resolve(hostname, AbortSignal.timeout(checkTimeoutMs))
  } catch {
    return undefined
  }
}

/**
 * Parses a URL as browsers do, which turns `127.1`, `0x7f.1` and `2130706433` into 127.0.0.1. `hostname` has no
 * brackets around an IPv6 address. Throws TargetRefusedError for other schemes, for credentials and for the ports 0 and 25.
 */
export function parseTarget(text: string): { url: URL; hostname: string } {
  if (!URL.canParse(text)) throw new TargetRefusedError('must be a URL such as https://example.com/hook')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new TargetRefusedError('must begin with https:// or http://')
  if (url.username !== '' || url.password !== '') throw new TargetRefusedError('must not hold a user name or password')
  if (url.port === '0' || url.port === '25') throw new TargetRefusedError(`must not use port ${url.port}`)
  return { url, hostname: url.hostname.replace(/^\[|\]$/g, '') }
}

/** Throws TargetRefusedError when `hostname` is an address that is not allowed. Names are accepted. */
export function requireAllowedLiteral(hostname: string, rules: AddressRules): void {
  if (isIP(hostname) !== 0 && !rules.isAllowed(hostname))
    throw new TargetRefusedError(
      `names the address ${hostname}, which is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS`,
    )
}
