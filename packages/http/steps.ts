import type { IncomingMessage } from 'node:http'
import { insufficientScope, invalidApiKey } from '@sluice/contracts/errors'
import { grants } from '@sluice/contracts/scopes'
import type { Admission } from './admission.ts'
import type { KeyCache } from './key-cache.ts'
import { checkContentType, readBody } from './read-body.ts'
import type { Credential, Route } from './route.ts'
import { serverLimits } from './server-limits.ts'

/** A request on its way through the steps; each step fills in what the later ones and the handler need. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly route: Route
  /** With `api_key`, which handlers never see. */
  readonly query: URLSearchParams
  readonly keys: Pick<KeyCache, 'authenticate'>
  readonly admission: Admission
  /** What the request counts for besides its body, and its body, to be released when it has been answered. */
  heldBytes: number
  heldBodyBytes: number
  credential: Credential | undefined
  body: { bytes: Buffer; type: string }
}

type Step = (exchange: Exchange) => void | Promise<void>

/**
 * What is checked before a handler, in the order of contract section 1: route and method (dispatch.ts), credential,
 * rate, scope, content type, body. Sessions join `authenticate`, and rate limits take the place marked below, with the
 * issue on access.
 */
export const steps: readonly Step[] = [
  // Overload is the cheapest answer: nothing is looked up, nothing read.
  admit,
  authenticate,
  // rate limit: after the credential, before the scope
  requireScope,
  requireContentType,
  takeBody,
]

function admit(exchange: Exchange): void {
  const refusal = exchange.admission.hold(serverLimits.requestBytes)
  if (refusal) throw refusal
  exchange.heldBytes = serverLimits.requestBytes
}

/** The header wins over the query; an Authorization scheme other than Bearer is ignored (contract section 2). */
function authenticate(exchange: Exchange): void | Promise<void> {
  const presented = bearer(exchange.request.headers.authorization) ?? exchange.query.get('api_key')
  if (presented === null) throw invalidApiKey()
  const credential = exchange.keys.authenticate(presented)
  if (!(credential instanceof Promise)) {
    exchange.credential = credential
    return
  }
  return credential.then((found) => {
    exchange.credential = found
  })
}

function bearer(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined
  const space = authorization.indexOf(' ')
  const scheme = space < 0 ? authorization : authorization.slice(0, space)
  return scheme.toLowerCase() === 'bearer' ? authorization.slice(scheme.length).trim() : undefined
}

function requireScope({ credential, route }: Exchange): void {
  if (!credential || !grants(credential.scopes, route.scope)) throw insufficientScope(route.scope)
}

function requireContentType(exchange: Exchange): void {
  if (exchange.route.body) exchange.body.type = checkContentType(exchange.request, exchange.route.body)
}

async function takeBody(exchange: Exchange): Promise<void> {
  const { request, route } = exchange
  if (!route.body) return
  exchange.body.bytes = await readBody(request, route.body, (bytes) => {
    const refusal = exchange.admission.hold(bytes)
    if (refusal === undefined) exchange.heldBodyBytes += bytes
    return refusal
  })
}
