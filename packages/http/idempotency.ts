import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { conflict, invalidField } from '@sluice/contracts/errors'
import type { IdempotentAnswers, StoredAnswer } from './access.ts'
import type { Answer, Credential } from './route.ts'

const keyLengthMax = 255

/**
 * Carries `work` out once for each `Idempotency-Key` of an API key, method and path (contract sections 1 and 10): the
 * same body within 24 h gets the first answer, anything else 409. Only 2xx answers are kept. Without the header, `work`
 * as it is. Throws 400 for a key that is none, 503 while Redis is away: nobody can tell then what was done.
 */
export async function onceByKey(
  { request, credential, body }: { request: IncomingMessage; credential: Credential; body: Buffer },
  answers: IdempotentAnswers,
  work: () => Promise<Answer>,
): Promise<Answer & Partial<Pick<StoredAnswer, 'timestamp'>>> {
  const key = request.headers['idempotency-key']
  if (key === undefined) return work()
  if (typeof key !== 'string' || key === '' || key.length > keyLengthMax) {
    throw invalidField('Idempotency-Key', `must have 1 to ${keyLengthMax} characters`)
  }
  const path = request.url?.split('?', 1)[0] ?? ''
  const { keyId, scopes, siteIds } = credential
  // With its rights: a key that lost some must not get an answer that it had before.
  const id = hash('sha256', JSON.stringify([keyId, scopes, siteIds, request.method, path, key]))
  const fingerprint = hash('sha256', body)
  const earlier = await answers.begin(id, fingerprint)
  switch (earlier.state) {
    case 'running':
      throw conflict('A request with this Idempotency-Key is still under way')
    case 'other':
      throw conflict('This Idempotency-Key was used with another body')
    case 'answered':
      return { ...(earlier.answer as StoredAnswer & Answer), headers: { 'Idempotency-Replayed': 'true' } }
    case 'new':
  }
  let answer: Answer
  try {
    answer = await work()
  } catch (error) {
    // A claim that can't be given up ends by itself; the error of the work is what the client must read.
    await answers.abandon(id).catch(() => undefined)
    throw error
  }
  const timestamp = Date.now()
  // Done is done: when the answer can't be kept, a repeat meets the claim's 409, or is carried out again after it.
  await answers.finish(id, fingerprint, { status: answer.status, data: answer.data, timestamp }).catch(() => undefined)
  return { ...answer, timestamp }
}
