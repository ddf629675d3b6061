import { expect, test } from '@jest/globals'
import { openSecretBox } from '@sluice/runtime/secret-box'
import { testSecretsKey } from '../../tests/support/secrets-key.ts'
import type { IdempotencyStore, StoredResponse } from './idempotency.ts'
import { sealedIdempotency } from './sealed-idempotency.ts'

const otherKey = 'b'.repeat(64)
const response = { status: 201, data: { url: 'https://hooks.example/token' }, timestamp: 1 }

/** A store of one response. */
function storeOfOne(): IdempotencyStore & { stored: () => string } {
  let kept: { fingerprint: string; answer: StoredResponse } | undefined
  return {
    claim: (_id, fingerprint) => {
      if (kept === undefined) return Promise.resolve({ state: 'new' })
      const { answer } = kept
      return Promise.resolve(kept.fingerprint === fingerprint ? { state: 'answered', answer } : { state: 'other' })
    },
    complete: (_id, fingerprint, answer) => {
      kept = { fingerprint, answer }
      return Promise.resolve()
    },
    release: () => Promise.resolve(),
    stored: () => JSON.stringify(kept),
  }
}

test('the store sees neither a response nor the hash of a body, and repeats get the response', async () => {
  const store = storeOfOne()
  const sealed = sealedIdempotency(store, openSecretBox(testSecretsKey))
  expect(await sealed.claim('id', 'hash of the body', 'owner')).toStrictEqual({ state: 'new' })
  await sealed.complete('id', 'hash of the body', response)
  expect(store.stored()).not.toMatch(/hooks\.example|token|hash of the body/)
  expect(await sealed.claim('id', 'hash of the body', 'owner')).toStrictEqual({ state: 'answered', answer: response })
  expect(await sealed.claim('id', 'another hash', 'owner')).toStrictEqual({ state: 'other' })
})

test('a response without data stays without', async () => {
  const sealed = sealedIdempotency(storeOfOne(), openSecretBox(testSecretsKey))
  const answer = { status: 200, timestamp: 1 }
  await sealed.complete('id', 'hash', answer)
  expect(await sealed.claim('id', 'hash', 'owner')).toStrictEqual({ state: 'answered', answer })
})

test('after a rotation of the key a repeat is that of another body', async () => {
  const store = storeOfOne()
  await sealedIdempotency(store, openSecretBox(testSecretsKey)).complete('id', 'hash', response)
  const rotated = sealedIdempotency(store, openSecretBox(otherKey, testSecretsKey))
  expect(await rotated.claim('id', 'hash', 'owner')).toStrictEqual({ state: 'other' })
})
