import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { loadConfig } from './config.ts'
import { openSecretBox } from './secret-box.ts'
import { secretsKey } from './variables.ts'

const bytes = Buffer.alloc(32, 7)
const key = bytes.toString('base64')
const box = openSecretBox(key)

test('a box gives back its text and shows nothing of it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (text) => {
      const sealed = box.seal(text)
      expect(box.open(sealed)).toBe(text.toWellFormed())
      expect(text.length > 4 && sealed.includes(text)).toBe(false)
      expect(sealed.equals(box.seal(text))).toBe(false)
    }),
  )
})

test('one key in base64 and in hex is one key', () => {
  expect(openSecretBox(bytes.toString('hex')).open(box.seal('a'))).toBe('a')
  expect(openSecretBox(bytes.toString('hex').toUpperCase()).open(box.seal('a'))).toBe('a')
})

test('a fingerprint depends on the text and on the key alone', () => {
  const other = openSecretBox(randomBytes(32).toString('hex'))
  expect(box.fingerprint('a')).toStrictEqual(openSecretBox(key).fingerprint('a'))
  expect(box.fingerprint('a')).not.toStrictEqual(box.fingerprint('b'))
  expect(box.fingerprint('a')).not.toStrictEqual(other.fingerprint('a'))
  expect(box.fingerprint('a')).toHaveLength(32)
})

test('with a previous key its boxes are opened too, and everything new is of the present key', () => {
  const previousKey = randomBytes(32).toString('hex')
  const previous = openSecretBox(previousKey)
  const both = openSecretBox(key, previousKey)
  expect(both.open(previous.seal('a'))).toBe('a')
  expect(box.open(both.seal('a'))).toBe('a')
  expect(both.fingerprint('a')).toStrictEqual(box.fingerprint('a'))
  for (const known of [box, previous]) expect(both.isFingerprintOf(known.fingerprint('a'), 'a')).toBe(true)
  expect(both.isFingerprintOf(box.fingerprint('a'), 'b')).toBe(false)
  expect(box.isFingerprintOf(previous.fingerprint('a'), 'a')).toBe(false)
  const third = openSecretBox(randomBytes(32).toString('hex'))
  expect(both.tryOpen(third.seal('a'))).toBeUndefined()
  const damaged = previous.seal('a')
  damaged[damaged.length - 1] = (damaged.at(-1) ?? 0) ^ 1
  expect(both.tryOpen(damaged)).toBeUndefined()
})

test('boxes begin with the prefix of their key; the same key twice is one key', () => {
  const previousKey = randomBytes(32).toString('hex')
  const { current, previous } = openSecretBox(key, previousKey).prefixes
  expect(box.seal('a').subarray(0, current.length)).toStrictEqual(current)
  expect(openSecretBox(previousKey).seal('a').subarray(0, current.length)).toStrictEqual(previous)
  expect(openSecretBox(key, bytes.toString('hex')).prefixes).toStrictEqual({ current, previous: undefined })
})

describe('what can not be opened is an error with what to do', () => {
  const thrown = (work: () => unknown): unknown => {
    try {
      return work()
    } catch (error) {
      return error
    }
  }

  test('a box of another key', () => {
    const other = openSecretBox(randomBytes(32).toString('base64'))
    expect(thrown(() => other.open(box.seal('a')))).toMatchObject({
      code: 'internal',
      message: 'Internal server error',
      internal: expect.stringMatching(/^A stored secret was stored with another SLUICE_SECRETS_KEY\./),
    })
  })

  test('every change of a byte, and every box that is cut off', () => {
    const sealed = box.seal('text')
    for (let at = 0; at < sealed.length; at += 1) {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect(thrown(() => box.open(changed))).toMatchObject({ code: 'internal' })
      expect(thrown(() => box.open(sealed.subarray(0, at)))).toMatchObject({ code: 'internal' })
    }
  })
})

test.each(['short', 'canary!'.repeat(9), Buffer.alloc(31, 1).toString('base64'), `${key}A`, ` ${key}`])(
  'a key of another length or alphabet is a mistake that does not show it: %j',
  (text) => {
    const load = () => loadConfig({ SLUICE_SECRETS_KEY: secretsKey }, { SLUICE_SECRETS_KEY: text })
    expect(load).toThrow(/SLUICE_SECRETS_KEY is not a key: 32 bytes in base64 or hex/)
    expect(load).not.toThrow(text)
  },
)
