import { randomBytes } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { createSecretCipher } from '@sluice/runtime/secret-cipher'
import { testSecretsKey } from '../../tests/support/secrets-key.ts'
import { encryptedIdempotency } from './encrypted-idempotency.ts'
import type { IdempotencyStore, StoredResponse } from './idempotency.ts'

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
  const encrypted = encryptedIdempotency(store, createSecretCipher(testSecretsKey))
  expect(await encrypted.claim('id', 'hash of the body', 'owner', 'key')).toStrictEqual({ state: 'new' })
  await encrypted.complete('id', 'hash of the body', response, 'key')
  expect(store.stored()).not.toMatch(/hooks\.example|token|hash of the body/)
  expect(await encrypted.claim('id', 'hash of the body', 'owner', 'key')).toStrictEqual({
    state: 'answered',
    answer: response,
  })
  expect(await encrypted.claim('id', 'another hash', 'owner', 'key')).toStrictEqual({ state: 'other' })
})

test('a response without data stays without', async () => {
  const encrypted = encryptedIdempotency(storeOfOne(), createSecretCipher(testSecretsKey))
  const answer = { status: 200, timestamp: 1 }
  await encrypted.complete('id', 'hash', answer, 'key')
  expect(await encrypted.claim('id', 'hash', 'owner', 'key')).toStrictEqual({ state: 'answered', answer })
})

test('after a rotation of the key a repeat is that of another body', async () => {
  const store = storeOfOne()
  await encryptedIdempotency(store, createSecretCipher(testSecretsKey)).complete('id', 'hash', response, 'key')
  const rotated = encryptedIdempotency(store, createSecretCipher(otherKey, testSecretsKey))
  expect(await rotated.claim('id', 'hash', 'owner', 'key')).toStrictEqual({ state: 'other' })
})

test('a response is compressed, so that it takes little more than the values in it', async () => {
  const store = storeOfOne()
  const encrypted = encryptedIdempotency(store, createSecretCipher(testSecretsKey))
  // In JSON, each of these characters is an escape of six.
  const controls = randomBytes(50_000).map((byte) => byte % 32 || 1)
  const answer = { status: 202, data: { filter: Buffer.from(controls).toString('latin1'), name: 'ü' }, timestamp: 1 }
  await encrypted.complete('id', 'hash', answer, 'key')
  expect(store.stored().length).toBeLessThan(75_000)
  expect(await encrypted.claim('id', 'hash', 'owner', 'key')).toStrictEqual({ state: 'answered', answer })
})

test('a response that an earlier build has stored without compression is repeated', async () => {
  const store = storeOfOne()
  const secrets = createSecretCipher(testSecretsKey)
  const data = secrets.encrypt(JSON.stringify(response.data)).toString('base64')
  await store.complete('id', secrets.fingerprint('hash').toString('hex'), { ...response, data }, 'key')
  const answer = await encryptedIdempotency(store, secrets).claim('id', 'hash', 'owner', 'key')
  expect(answer).toStrictEqual({ state: 'answered', answer: response })
})
