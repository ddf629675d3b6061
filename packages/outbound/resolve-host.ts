import { lookup, Resolver } from 'node:dns/promises'
import { concurrencyLimit } from '@sluice/runtime/concurrency-limit'
import { errorCode } from '@sluice/runtime/errors'
import { settledOrAborted } from '@sluice/runtime/settled-or-aborted'

/** The addresses of a host name, at least one. Rejects with HostNotResolvedError, and with the signal's reason. */
export type Resolve = (hostname: string, signal: AbortSignal) => Promise<readonly string[]>

/** A name has no address, or no DNS server answers. */
export class HostNotResolvedError extends Error {
  override readonly name = 'HostNotResolvedError'
}

/** One DNS server gets two attempts of this length, ms. */
const queryTimeoutMs = 2_000
/**
 * Once one family has addresses, the other one is awaited for so long, ms: some servers never answer queries for AAAA,
 * and an attempt to deliver lasts 15 s with its look-up.
 */
const otherFamilyMs = 1_000
/** A lookup of the operating system occupies one of Node's four threads for files, and can't be cancelled. */
const systemLookupsMax = 2
/** A name that the operating system does not find is not looked up again for so long, ms. */
const notFoundMs = 30_000
/**
 * A name that the operating system can't look up at the moment is looked up again after so long, ms, or after as long as the look-up
 * took, so that a name whose servers never answer leaves half of the time to the others.
 */
const failedMsMin = 1_000
/** Maximum number of names whose failed look-up is remembered; the oldest are forgotten first. */
const failedNamesMax = 1_000

/**
 * Asks DNS (A and AAAA) on sockets of its own, so that names whose servers never answer cost no thread. A name that DNS
 * does not know is looked up as the operating system does it (its hosts file, search domains), and so is a name without
 * a dot that a DNS server refuses to look up. `localhost` and names below it are the loopback addresses (RFC 6761).
 *
 * For tests, `servers` replaces the machine's DNS servers, `lookUp` the look-up of the operating system, and `now` the
 * monotonic clock. With `servers` alone, nothing is looked up beyond DNS.
 */
export function dnsResolver(
  servers?: readonly string[],
  lookUp = servers === undefined ? lookUpBySystem : undefined,
  now: () => number = () => performance.now(),
): Resolve {
  const lookUpFairly = lookUp && fairLookups(lookUp, now)
  return async (hostname, signal) => {
    signal.throwIfAborted()
    const name = hostname.replace(/\.$/, '')
    if (/(^|\.)localhost$/i.test(name)) return ['127.0.0.1', '::1']
    const found = await queryDns(name, servers, signal)
    signal.throwIfAborted()
    if (found.addresses.length > 0) return found.addresses
    if (!found.isForSystem || lookUpFairly === undefined) throw new HostNotResolvedError(name)
    return settledOrAborted(lookUpFairly(name, signal), signal)
  }
}

/** Rejects with HostNotResolvedError, whose cause is the error of the system. */
type LookUp = (name: string) => Promise<readonly string[]>

/**
 * Look-ups in the order of the calls, a few at a time, of which one name takes one: callers that ask for a name which
 * is being looked up share the result. A name that was not found, or could not be looked up, is not looked up again for a
 * while. A call whose signal aborts before its turn looks up nothing.
 */
function fairLookups(lookUp: LookUp, now: () => number): (name: string, signal: AbortSignal) => ReturnType<LookUp> {
  const limit = concurrencyLimit(systemLookupsMax)
  const running = new Map<string, ReturnType<LookUp>>()
  const notLookedUpUntil = new Map<string, number>()

  /** The look-up of the name that is under way. Throws for a name whose look-up has failed a short time ago. */
  function lookupUnderWay(name: string): ReturnType<LookUp> | undefined {
    if (now() < (notLookedUpUntil.get(name) ?? 0)) throw new HostNotResolvedError(name)
    return running.get(name)
  }

  function rememberFailure(name: string, forMs: number): void {
    notLookedUpUntil.delete(name)
    notLookedUpUntil.set(name, now() + forMs)
    const [oldest] = notLookedUpUntil.keys()
    if (notLookedUpUntil.size > failedNamesMax && oldest !== undefined) notLookedUpUntil.delete(oldest)
  }

  return async (name, signal) => {
    const underWay = lookupUnderWay(name)
    if (underWay) return underWay
    const { result } = await limit(async () => {
      signal.throwIfAborted()
      const begun = lookupUnderWay(name)
      // In an object, so that its place is free for another name meanwhile.
      if (begun) return { result: begun }
      const startedAt = now()
      const started = lookUp(name)
      running.set(name, started)
      try {
        await started
      } catch (error) {
        const isUnknown = error instanceof HostNotResolvedError && isNegative(error.cause)
        const failedMs = Math.max(failedMsMin, now() - startedAt)
        rememberFailure(name, isUnknown ? notFoundMs : Math.min(failedMs, notFoundMs))
      } finally {
        running.delete(name)
      }
      return { result: started }
    })
    return result
  }
}

interface DnsAnswer {
  addresses: readonly string[]
  /** Whether the operating system may know the name: a server has said that DNS doesn't, or refuses names without a dot. */
  isForSystem: boolean
}

async function queryDns(name: string, servers: readonly string[] | undefined, signal: AbortSignal): Promise<DnsAnswer> {
  const resolver = new Resolver({ timeout: queryTimeoutMs, tries: 2 })
  if (servers) resolver.setServers(servers)
  const cancel = (): void => resolver.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  let limit: NodeJS.Timeout | undefined
  const limitOther = (addresses: readonly string[]): readonly string[] => {
    limit ??= setTimeout(cancel, otherFamilyMs)
    return addresses
  }
  try {
    const queries = [resolver.resolve4(name), resolver.resolve6(name)]
    const answers = await Promise.allSettled(queries.map((query) => query.then(limitOther)))
    return {
      addresses: answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : [])),
      isForSystem: answers.some(
        (answer) => answer.status === 'rejected' && (isNegative(answer.reason) || isRefusedLabel(name, answer.reason)),
      ),
    }
  } finally {
    clearTimeout(limit)
    signal.removeEventListener('abort', cancel)
  }
}

function isNegative(reason: unknown): boolean {
  return ['ENOTFOUND', 'ENODATA', 'EBADNAME', 'EBADQUERY'].includes(errorCode(reason) ?? '')
}

/**
 * Whether a name without a dot got the answer that systemd-resolved gives to all of them, because it applies search
 * domains only to look-ups of the operating system. For other names, this answer means that their servers are broken,
 * and anybody could make such names in order to occupy the look-ups of the operating system.
 */
function isRefusedLabel(name: string, reason: unknown): boolean {
  return !name.includes('.') && ['ESERVFAIL', 'EREFUSED'].includes(errorCode(reason) ?? '')
}

async function lookUpBySystem(name: string): Promise<readonly string[]> {
  try {
    const found = await lookup(name, { all: true })
    return found.map(({ address }) => address)
  } catch (error) {
    throw new HostNotResolvedError(name, { cause: error })
  }
}
