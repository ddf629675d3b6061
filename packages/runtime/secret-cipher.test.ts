import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { loadConfig } from './config.ts'
import { createSecretCipher } from './secret-cipher.ts'
import { secretsKey } from './variables.ts'

const bytes = Buffer.alloc(32, 7)
const key = bytes.toString('base64')
const cipher = createSecretCipher(key)

test('a ciphertext decrypts to its text and shows nothing of it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (text) => {
      const encrypted = cipher.encrypt(text)
      expect(cipher.decrypt(encrypted)).toBe(text.toWellFormed())
      expect(text.length > 4 && encrypted.includes(text)).toBe(false)
      expect(encrypted.equals(cipher.encrypt(text))).toBe(false)
    }),
  )
})

test('one key in base64 and in hex is one key', () => {
  expect(createSecretCipher(bytes.toString('hex')).decrypt(cipher.encrypt('a'))).toBe('a')
  expect(createSecretCipher(bytes.toString('hex').toUpperCase()).decrypt(cipher.encrypt('a'))).toBe('a')
})

test('a fingerprint depends on the text and on the key alone', () => {
  const other = createSecretCipher(randomBytes(32).toString('hex'))
  expect(cipher.fingerprint('a')).toStrictEqual(createSecretCipher(key).fingerprint('a'))
  expect(cipher.fingerprint('a')).not.toStrictEqual(cipher.fingerprint('b'))
  expect(cipher.fingerprint('a')).not.toStrictEqual(other.fingerprint('a'))
  expect(cipher.fingerprint('a')).toHaveLength(32)
})

test('with a previous key its ciphertexts are decrypted too, and everything new is of the present key', () => {
  const previousKey = randomBytes(32).toString('hex')
  const previous = createSecretCipher(previousKey)
  const both = createSecretCipher(key, previousKey)
  expect(both.decrypt(previous.encrypt('a'))).toBe('a')
  expect(cipher.decrypt(both.encrypt('a'))).toBe('a')
  expect(both.fingerprint('a')).toStrictEqual(cipher.fingerprint('a'))
  for (const known of [cipher, previous]) expect(both.isFingerprintOf(known.fingerprint('a'), 'a')).toBe(true)
  expect(both.isFingerprintOf(cipher.fingerprint('a'), 'b')).toBe(false)
  expect(cipher.isFingerprintOf(previous.fingerprint('a'), 'a')).toBe(false)
  const third = createSecretCipher(randomBytes(32).toString('hex'))
  expect(both.tryDecrypt(third.encrypt('a'))).toBeUndefined()
  const damaged = previous.encrypt('a')
  damaged[damaged.length - 1] = (damaged.at(-1) ?? 0) ^ 1
  expect(both.tryDecrypt(damaged)).toBeUndefined()
})

test('ciphertexts begin with the prefix of their key; the same key twice is one key', () => {
  const previousKey = randomBytes(32).toString('hex')
  const { current, previous } = createSecretCipher(key, previousKey).prefixes
  expect(cipher.encrypt('a').subarray(0, current.length)).toStrictEqual(current)
  expect(createSecretCipher(previousKey).encrypt('a').subarray(0, current.length)).toStrictEqual(previous)
  expect(createSecretCipher(key, bytes.toString('hex')).prefixes).toStrictEqual({ current, previous: undefined })
})

describe('what can not be decrypted is an error with what to do', () => {
  const thrown = (work: () => unknown): unknown => {
    try {
      return work()
    } catch (error) {
      return error
    }
  }

  test('a ciphertext of another key', () => {
    const other = createSecretCipher(randomBytes(32).toString('base64'))
    expect(thrown(() => other.decrypt(cipher.encrypt('a')))).toMatchObject({
      code: 'internal',
      message: 'Internal server error',
      internal: expect.stringMatching(/^A stored secret was stored with another SLUICE_SECRETS_KEY\./),
    })
  })

  test('every change of a byte, and every ciphertext that is cut off', () => {
    const encrypted = cipher.encrypt('text')
    for (let at = 0; at < encrypted.length; at += 1) {
      const changed = Buffer.from(encrypted)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(thrown(() => cipher.decrypt(changed))).toMatchObject({ code: 'internal' })
      expect(thrown(() => cipher.decrypt(encrypted.subarray(0, at)))).toMatchObject({ code: 'internal' })
    }
  })
})

test.each(['short', 'canary!'.repeat(9), Buffer.alloc(31, 1).toString('base64'), `${key}A`, ` ${key}`])(
  'a key of another length or alphabet is a mistake that does not show it: %j',
  (text) => {
    const load = () => loadConfig({ SLUICE_SECRETS_KEY: secretsKey }, { SLUICE_SECRETS_KEY: text })
    expect(load).toThrow(/SLUICE_SECRETS_KEY must be 32 bytes in base64 or hex/)
    expect(load).not.toThrow(text)
  },
)
