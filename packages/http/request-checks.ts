import type { IncomingMessage } from 'node:http'
import type { Access } from '@sluice/access/access'
import type { Credential, Session } from '@sluice/access/credential'
import { RequestRateLimit } from '@sluice/access/request-rate-limit'
import { requireImportKey } from '@sluice/access/require-import-key'
import { grants } from '@sluice/contracts/scopes'
import { insufficientScope, invalidApiKey, originNotAllowed, unavailable } from '@sluice/runtime/errors'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import { type Admission, memoryIsFull, type MemoryQuota } from './admission.ts'
import { authenticateSession, findWriteKey, readCredential, rejectCrossSite } from './authenticate.ts'
import { type ClientReader, networkOf } from './client-address.ts'
import { checkContentType, decompressBody, encodingOfBody, hasBody, readBody } from './read-body.ts'
import type { RouteRule } from './route.ts'
import { serverLimits } from './server-limits.ts'
import type { WorkQueue } from './work-queue.ts'

/** A request on its way through the checks. Each sets the fields that later checks and the handler need. */
export interface RequestContext {
  readonly request: IncomingMessage
  readonly route: RouteRule
  /** Includes `api_key`, which handlers do not receive. */
  readonly query: URLSearchParams
  /**
   * The key that a request to a path of Segment presents outside of its body; undefined for none, and on other paths.
   */
  readonly writeKey: string | undefined
  readonly access: Access
  readonly clients: ClientReader
  readonly admission: Admission
  readonly workQueue: WorkQueue
  readonly clock: Pick<SynchronizedClock, 'now'>
  /** The quota that the memory of the request is reserved from. */
  quota: MemoryQuota | undefined
  /** The client's network, where it is bounded within the quota; undefined elsewhere. */
  network: string | undefined
  /** Bytes reserved for the request itself and for its body; both are released after the response. */
  reservedBytes: number
  reservedBodyBytes: number
  credential: Credential | undefined
  /** The session that the credential comes from. */
  session: Session | undefined
  /** State of the credential's rate limit for the class of the route. */
  rate: RequestRateLimit | undefined
  body: { bytes: Buffer; type: string }
  /** Unix ms at which the whole body had been read; undefined without a body. */
  receivedAt: number | undefined
  /** `performance.now()` when the rights of the key were read. */
  authenticatedAt: number
}

/** A change of a key applies within 2 s. Rights that were read longer ago than this are read again. */
const rightsAgeMsMax = 1_000

type Check = (context: RequestContext) => void | Promise<void>

/**
 * The checks before a handler, in the order of docs/http-interface.md#order-of-checks: route and method (app.ts),
 * credential, rate, scope, content type, body.
 */
const checks: readonly Check[] = [
  // First, because refusing a request under overload must be cheap: no key is looked up and no body is read.
  admit,
  authenticate,
  openRateLimit,
  // Before anything is charged: a page of another origin must not use up the limits of a signed-in user's key.
  rejectCrossSiteRequest,
  reserveMemory,
  consumeRateLimit,
  requireScope,
  requireKeyForImports,
  requireAllowedOrigin,
  requireContentType,
  readRequestBody,
  awaitTurn,
  authenticateSlowRequest,
]

/**
 * The checks of a request that needs no key. Memory is reserved after the body has been read, because a body has at
 * most 1 KiB here. All requests without a key share one quota, and clients that connect and send nothing would occupy
 * it until the request timeout of one minute.
 */
const publicChecks: readonly Check[] = [
  admit,
  rejectCrossSiteRequest,
  requireContentType,
  readRequestBody,
  reserveMemory,
  awaitTurn,
]

/**
 * The checks of a request whose key is in its body (docs/http-interface.md#segment-keys). The body is read before
 * authentication, with a memory quota of its own, so that requests without a valid key can't use up the memory of the
 * others. As in `publicChecks`, a client that sends no body occupies nothing.
 */
const bodyKeyChecks: readonly Check[] = [
  admit,
  chooseBodyKeyQuota,
  requireContentType,
  readRequestBody,
  reserveBodyKeyMemory,
  awaitTurn,
  authenticateByBody,
  openRateLimit,
  moveMemoryToKey,
  consumeRateLimit,
  requireScope,
  requireKeyForImports,
  requireAllowedOrigin,
]

/** The checks before the handler of a request, in their order. */
export function checksOf({ route, writeKey }: RequestContext): readonly Check[] {
  if (route.scope === 'public') return publicChecks
  return route.dialect !== undefined && writeKey === undefined ? bodyKeyChecks : checks
}

function admit({ admission, workQueue }: RequestContext): void {
  if (admission.isFull()) throw unavailable(memoryIsFull)
  workQueue.requireArrivalRoom()
}

/**
 * Everybody can read the key of a web page, and a request with the key in its body is not authenticated yet. Within
 * their quotas, each network is bounded, so that one client can't keep out all others.
 */
function networkOfClient({ clients, request }: RequestContext): string {
  return networkOf(clients.read(request).address)
}

function networkWithinKey(context: RequestContext): string | undefined {
  const isOfPages = context.credential?.rateLimits?.events_per_minute_per_address !== undefined
  return isOfPages ? networkOfClient(context) : undefined
}

function reserveMemory(context: RequestContext): void {
  context.network = networkWithinKey(context)
  reserveRequest(context, context.admission.quotaOf(context.credential?.keyId))
}

/** The parts of the body are reserved from the quota as they arrive. */
function chooseBodyKeyQuota(context: RequestContext): void {
  context.quota = context.admission.bodyKeyQuota
  context.network = networkOfClient(context)
}

function reserveBodyKeyMemory(context: RequestContext): void {
  reserveRequest(context, context.admission.bodyKeyQuota)
}

function reserveRequest(context: RequestContext, quota: MemoryQuota): void {
  context.admission.reserve(quota, serverLimits.requestBytes, context.network)
  context.quota = quota
  context.reservedBytes = serverLimits.requestBytes
}

async function authenticateByBody(context: RequestContext): Promise<void> {
  const key = findWriteKey(context.body.bytes)
  if (key === undefined) throw invalidApiKey()
  context.credential = await context.access.keys.authenticate(key)
}

/** Moves the reserved memory of a request to the quota of its key. */
function moveMemoryToKey(context: RequestContext): void {
  const { admission, credential, quota, network, reservedBytes, reservedBodyBytes } = context
  const bytes = reservedBytes + reservedBodyBytes
  if (quota) admission.release(quota, bytes, network)
  // If the next reservation fails, nothing is left to release.
  context.quota = undefined
  const own = admission.quotaOf(credential?.keyId)
  context.network = networkWithinKey(context)
  admission.reserve(own, bytes, context.network)
  context.quota = own
}

function authenticate(context: RequestContext): void | Promise<void> {
  const { request, query, access, writeKey } = context
  context.authenticatedAt = performance.now()
  const given = writeKey === undefined ? readCredential(request, query) : { key: writeKey }
  if (given === undefined) throw invalidApiKey()
  if ('key' in given) {
    const credential = access.keys.authenticate(given.key)
    if (!(credential instanceof Promise)) {
      context.credential = credential
      return
    }
    return credential.then((found) => {
      context.credential = found
    })
  }
  return authenticateSession(given.tokens, access).then(({ credential, session }) => {
    context.credential = credential
    context.session = session
  })
}

/**
 * Reads the rights of the key again if the body took long. A revoked key, or a removed right, stops working everywhere
 * within 2 s (docs/http-interface.md#keys), but a client may take a minute to send its body, and a body may wait in the
 * queue.
 */
function authenticateSlowRequest(context: RequestContext): void | Promise<void> {
  return performance.now() - context.authenticatedAt > rightsAgeMsMax ? authenticateAgain(context) : undefined
}

async function authenticateAgain(context: RequestContext): Promise<void> {
  await authenticate(context)
  requireScope(context)
  requireKeyForImports(context)
  requireAllowedOrigin(context)
}

/** From here on, every response has `X-RateLimit-*`, also the 503 when the key has no memory left. */
function openRateLimit(context: RequestContext): void {
  const { credential, route, access } = context
  if (credential === undefined || route.limit === undefined) return
  context.rate = new RequestRateLimit(access.limiter, route.limit, credential, () => networkOfClient(context))
}

function consumeRateLimit({ rate, route }: RequestContext): void | Promise<void> {
  // The cost depends on the body, which has not been read yet.
  if (route.cost === 'body') rate?.rejectIfExhausted()
  else if (route.cost !== 0) return rate?.consume(1)
}

/** Applies to requests with a session's cookie, and to public operations, which may set one. */
function rejectCrossSiteRequest({ request, route, session, clients }: RequestContext): void {
  if (session || route.scope === 'public') rejectCrossSite(request, clients.read(request).host)
}

function requireScope({ credential, route: { scope, alternativeScope } }: RequestContext): void {
  if (scope === 'public' || scope === 'authenticated') return
  const held = credential?.scopes ?? []
  if (grants(held, scope) || (alternativeScope !== undefined && grants(held, alternativeScope))) return
  throw insufficientScope(scope, alternativeScope)
}

/** Imports are the operations other than collecting for which a key may write events. */
function requireKeyForImports({ route, credential }: RequestContext): void {
  if (credential && route.scope === 'events:write' && route.limit !== 'events') requireImportKey(credential)
}

/**
 * Applies to keys of web pages (docs/http-interface.md#key-origins). Servers send no `Origin`, while every browser
 * sends it with a POST.
 */
function requireAllowedOrigin({ request, route, credential }: RequestContext): void {
  if (!credential || route.scope !== 'events:write' || route.limit !== 'events') return
  const { origin } = request.headers
  if (origin === undefined || !credential.allowedOrigins) return
  if (!credential.allowedOrigins.includes(origin)) throw originNotAllowed()
}

function requireContentType(context: RequestContext): void {
  const { request, route } = context
  if (!route.body) return
  // A client that sends no body sends no `Content-Type` either, or its default one.
  if (route.body.kind === 'json' && route.body.optional && !hasBody(request)) return
  // Segment's client for C# sends no `Content-Type`, and deletes the messages of a batch that is answered 415. Pages can
  // send such bodies without a preflight, as they can send text/plain, which these paths accept anyway.
  const absent = route.dialect === 'segment' ? 'application/json' : undefined
  context.body.type = checkContentType(request, route.body, absent)
}

async function readRequestBody(context: RequestContext): Promise<void> {
  const { request, route } = context
  if (!route.body) return
  if (route.body.kind === 'multipart') {
    reserveUpload(context)
    return
  }
  context.body.bytes = await readBody(request, route.body.maxBytes, (bytes) => reserveBody(context, bytes))
  context.receivedAt = context.clock.now()
}

function reserveBody(context: RequestContext, bytes: number): void {
  if (!context.quota) return
  context.admission.reserve(context.quota, bytes, context.network)
  context.reservedBodyBytes += bytes
}

/** Waits until the request may be handled, and decompresses its body. */
function awaitTurn(context: RequestContext): void | Promise<void> {
  const { request, route, body, credential, workQueue } = context
  // The waiting time of a request is measured from here: a client that sends slowly is no sign of overload.
  const readAt = performance.now()
  if (route.body?.kind === 'multipart') return
  // Without any bytes, `Content-Encoding` says nothing about a body that may be left out.
  const isLeftOut = route.body?.kind === 'json' && route.body.optional === true && body.bytes.length === 0
  const encoding = route.body && !isLeftOut ? encodingOfBody(request, body.type, body.bytes) : undefined
  if (route.body === undefined || encoding === undefined) return workQueue.turn(readAt)
  return decompressBody(body.bytes, encoding, {
    // Requests without a key, and those whose key is in the body, are one sender together.
    sender: credential?.keyId ?? '',
    maxBytes: route.body.maxBytes,
    reserve: (bytes) => reserveBody(context, bytes),
    // Decompression has a queue of its own. A second wait in the work queue would hold the memory of decompressed bodies.
    requireInTime: () => workQueue.requireInTime(readAt),
  }).then((bytes) => {
    body.bytes = bytes
  })
}

/** Reserves memory for the parts of an upload that are in memory at a time; its handler reads the body. */
function reserveUpload(context: RequestContext): void {
  if (!context.quota) return
  context.admission.reserve(context.quota, serverLimits.uploadBytes, context.network)
  context.reservedBodyBytes = serverLimits.uploadBytes
}
