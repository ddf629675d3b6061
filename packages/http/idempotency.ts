import { hash, randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Credential } from '@sluice/access/credential'
import type { IdempotencyStore, StoredResponse } from '@sluice/access/idempotency'
import { rateLimitedUntil } from '@sluice/access/limiter'
import { idempotencyLimits, underWayError } from '@sluice/contracts/idempotency'
import { conflict, invalidField } from '@sluice/runtime/errors'
import type { SynchronizedClock } from '@sluice/runtime/synchronized-clock'
import type { HandlerResult, Route } from './route.ts'

const { keyLengthMax } = idempotencyLimits

/**
 * Runs `work` once for each `Idempotency-Key` of an API key, method and path (docs/http-interface.md#idempotency). For
 * 24 h, a repeat with the same body gets the first answer; any other request with the key gets 409. Only 2xx answers
 * without a generated secret are stored. After any other answer, a repeat runs `work` again. Without the header, `work`
 * simply runs. Throws 400 for an invalid key, and 429 when too many bytes of answers to the API key are stored. Throws
 * 503 while Redis is unavailable, because it is unknown whether the work was done before.
 */
export async function withIdempotency(
  {
    request,
    credential,
    body,
    clock,
  }: { request: IncomingMessage; credential: Credential; body: Buffer; clock: Pick<SynchronizedClock, 'now'> },
  {
    store,
    containsGeneratedSecret,
  }: { store: IdempotencyStore; containsGeneratedSecret: Route['containsGeneratedSecret'] | undefined },
  work: () => Promise<HandlerResult>,
): Promise<HandlerResult & Partial<Pick<StoredResponse, 'timestamp'>>> {
  const key = request.headers['idempotency-key']
  if (key === undefined) return work()
  if (typeof key !== 'string' || key === '' || key.length > keyLengthMax) {
    throw invalidField('Idempotency-Key', `must have 1 to ${keyLengthMax} characters`)
  }
  const path = request.url?.split('?', 1)[0] ?? ''
  const { keyId, scopes, siteIds } = credential
  // The id includes the rights of the key, so that a key that has lost rights gets no response from before the loss.
  const id = hash('sha256', JSON.stringify([keyId, scopes, siteIds, request.method, path, key]))
  // An empty body counts as `{}`.
  const fingerprint = hash('sha256', body.length === 0 ? '{}' : body)
  const owner = randomUUID()
  const earlier = await store.claim(id, fingerprint, owner, keyId)
  switch (earlier.state) {
    case 'running':
      throw conflict(underWayError)
    case 'other':
      throw conflict('This Idempotency-Key was already used with a different body')
    case 'full':
      throw rateLimitedUntil(earlier.resetAt)
    case 'answered':
      return { ...(earlier.answer as StoredResponse & HandlerResult), headers: { 'Idempotency-Replayed': 'true' } }
    case 'new':
  }
  let answer: HandlerResult
  try {
    answer = await work()
  } catch (error) {
    // A claim that can't be released expires; the client must get the error of the work.
    await store.release(id, owner).catch(() => undefined)
    throw error
  }
  if (containsGeneratedSecret?.(answer.data)) {
    await store.release(id, owner).catch(() => undefined)
    return answer
  }
  const timestamp = clock.now()
  // The work is done even if its response can't be stored: a repeat gets 409 until the claim expires, then runs again.
  const stored = { status: answer.status, data: answer.data, timestamp }
  await store.complete(id, fingerprint, stored, keyId).catch(() => undefined)
  return { ...answer, timestamp }
}
