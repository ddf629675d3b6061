import type { IncomingMessage } from 'node:http'
import { insufficientScope, invalidApiKey, unavailable } from '@sluice/contracts/errors'
import { grants } from '@sluice/contracts/scopes'
import type { Access } from './access.ts'
import type { Account, Admission } from './admission.ts'
import { type Authenticated, authenticateSession, presented, refuseCrossSite } from './authenticate.ts'
import type { ClientReader } from './client.ts'
import { RateLimit } from './rate-limit.ts'
import { checkContentType, readBody } from './read-body.ts'
import type { Credential, RouteRule, Session } from './route.ts'
import { serverLimits } from './server-limits.ts'

/** A request on its way through the steps; each step fills in what the later ones and the handler need. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly route: RouteRule
  /** With `api_key`, which handlers never see. */
  readonly query: URLSearchParams
  readonly access: Access
  readonly clients: ClientReader
  readonly admission: Admission
  /** Whose the memory is that the request holds. */
  account: Account | undefined
  /** What the request counts for besides its body, and its body, to be released when it has been answered. */
  heldBytes: number
  heldBodyBytes: number
  credential: Credential | undefined
  /** The session that the credential comes from. */
  session: Session | undefined
  /** Where the credential's limit of the route's class stands. */
  rate: RateLimit | undefined
  body: { bytes: Buffer; type: string }
}

type Step = (exchange: Exchange) => void | Promise<void>

/**
 * What is checked before a handler, in the order of contract section 1: route and method (dispatch.ts), credential,
 * rate, scope, content type, body.
 */
export const steps: readonly Step[] = [
  // Overload is the cheapest answer: nothing is looked up, nothing read.
  admit,
  authenticate,
  holdMemory,
  limitRate,
  refuseForeignPage,
  requireScope,
  requireContentType,
  takeBody,
]

function admit(exchange: Exchange): void {
  if (exchange.admission.full()) throw unavailable('requests under way hold all the memory they may')
}

function holdMemory(exchange: Exchange): void {
  const { admission, credential } = exchange
  const account = admission.accountOf(credential?.keyId)
  const refusal = admission.hold(account, serverLimits.requestBytes)
  if (refusal) throw refusal
  exchange.account = account
  exchange.heldBytes = serverLimits.requestBytes
}

function authenticate(exchange: Exchange): void | Promise<void> {
  const { request, route, access } = exchange
  if (route.scope === 'public') return
  const given = presented(request, exchange.query)
  if (given === undefined) throw invalidApiKey()
  if ('key' in given) {
    const credential = access.keys.authenticate(given.key)
    if (!(credential instanceof Promise)) {
      exchange.credential = credential
      return
    }
    return credential.then((found) => {
      exchange.credential = found
    })
  }
  return authenticateSession(given.token, access).then(({ credential, session }: Authenticated) => {
    exchange.credential = credential
    exchange.session = session
  })
}

function limitRate(exchange: Exchange): void | Promise<void> {
  const { credential, route, access } = exchange
  if (credential === undefined || route.limit === undefined) return
  const rate = new RateLimit(access.limiter, route.limit, credential)
  exchange.rate = rate
  // What its body costs is known only when it has been read.
  if (route.cost === 'body') rate.refuseExhausted()
  else return rate.spend(1)
}

/** On a cookie, and where a cookie is given. */
function refuseForeignPage({ request, route, session, clients }: Exchange): void {
  if (session || route.scope === 'public') refuseCrossSite(request, clients.host(request))
}

function requireScope({ credential, route: { scope, orScope } }: Exchange): void {
  if (scope === 'public' || scope === 'authenticated') return
  const held = credential?.scopes ?? []
  if (grants(held, scope) || (orScope !== undefined && grants(held, orScope))) return
  throw insufficientScope(scope, orScope)
}

function requireContentType(exchange: Exchange): void {
  if (exchange.route.body) exchange.body.type = checkContentType(exchange.request, exchange.route.body)
}

async function takeBody(exchange: Exchange): Promise<void> {
  const { request, route } = exchange
  if (!route.body) return
  exchange.body.bytes = await readBody(request, route.body, (bytes) => {
    if (!exchange.account) return undefined
    const refusal = exchange.admission.hold(exchange.account, bytes)
    if (refusal === undefined) exchange.heldBodyBytes += bytes
    return refusal
  })
}
