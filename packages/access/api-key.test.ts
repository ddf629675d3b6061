import { createHash } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { generateKey, hashKey, keyEnvironment, keyHint, keyLength } from './api-key.ts'

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** CRC-32 (IEEE 802.3, reflected) bit by bit, as the standard defines it. */
function crc32(text: string): number {
  let rest = 0xffffffff
  for (const byte of Buffer.from(text)) {
    rest ^= byte
    for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest & 1 ? 0xedb88320 : 0)
  }
  return (rest ^ 0xffffffff) >>> 0
}

function base62(value: number): string {
  return value < 62 ? digits.charAt(value) : base62(Math.floor(value / 62)) + digits.charAt(value % 62)
}

/** A key as docs/http-interface.md#key-format defines it, from its first characters. */
function keyOf(unchecked: string): string {
  return (
    unchecked +
    base62(crc32(unchecked))
      .padStart(6, '0')
      .slice(unchecked.length - 43)
  )
}

const material = 'abcdefghijABCDEFGHIJ0123456789_z'

test('the CRC-32 of this test returns the check value of the standard', () => {
  expect(crc32('123456789')).toBe(0xcbf43926)
})

describe.each([
  ['prod', 'svc_prod_', 2],
  ['dev', 'svc_dev_', 3],
] as const)('a %s key', (environment, prefix, checksumLength) => {
  const key = keyOf(prefix + material)

  test('consists of its prefix, 32 characters and the last base62 digits of their CRC-32', () => {
    expect(key).toHaveLength(43)
    expect(key).toHaveLength(prefix.length + 32 + checksumLength)
    expect(keyEnvironment(key)).toBe(environment)
  })

  test('has this form when it is generated, and no two keys are equal', () => {
    const keys = Array.from({ length: 500 }, () => generateKey(environment))
    for (const each of keys) {
      expect(each).toMatch(new RegExp(`^${prefix}[0-9A-Za-z]{${32 + checksumLength}}$`))
      expect(each).toHaveLength(keyLength)
      expect(each).toBe(keyOf(each.slice(0, prefix.length + 32)))
      expect(keyEnvironment(each)).toBe(environment)
    }
    expect(new Set(keys).size).toBe(keys.length)
  })

  test('has every character about equally often', () => {
    const counts = new Map<string, number>()
    const keys = Array.from({ length: 2_000 }, () => generateKey(environment).slice(prefix.length, -checksumLength))
    for (const character of keys.join('')) counts.set(character, (counts.get(character) ?? 0) + 1)
    const expected = (2_000 * 32) / 62
    expect(counts.size).toBe(62)
    // Six standard deviations: one run in a hundred million fails by chance.
    for (const count of counts.values()) expect(Math.abs(count - expected)).toBeLessThan(6 * Math.sqrt(expected))
  })

  test('is always refused with a mistyped checksum', () => {
    for (let at = key.length - checksumLength; at < key.length; at++) {
      for (const character of digits) {
        const typo = key.slice(0, at) + character + key.slice(at + 1)
        if (typo !== key) expect(keyEnvironment(typo)).toBeUndefined()
      }
    }
  })

  test('is refused with one mistyped character, apart from the few that a short checksum misses', () => {
    let typos = 0
    let missed = 0
    for (let n = 0; n < 20; n++) {
      const right = generateKey(environment)
      for (let at = 0; at < right.length - checksumLength; at++) {
        for (const character of `${digits}_`) {
          const typo = right.slice(0, at) + character + right.slice(at + 1)
          if (typo === right) continue
          typos++
          if (keyEnvironment(typo) !== undefined) missed++
        }
      }
    }
    // One in 62 ** digits by design; twice that, and six more, leave room for chance.
    expect(missed).toBeLessThanOrEqual(6 + (2 * typos) / 62 ** checksumLength)
  })

  test('is refused with another length, another prefix or other characters', () => {
    for (const wrong of [
      '',
      key.slice(0, -1),
      `${key}0`,
      ` ${key}`,
      `${key}\n`,
      key.toUpperCase(),
      keyOf(`svc_test_${material}`.slice(0, 41)),
      keyOf(`svc_prod-${material}`),
      keyOf(`${prefix}${material.slice(0, -1)}-`),
      keyOf(`${prefix}${material.slice(0, -1)}é`),
      'x'.repeat(43),
    ]) {
      expect(keyEnvironment(wrong)).toBeUndefined()
    }
  })

  test('has a hint of its prefix and its last four characters', () => {
    expect(keyHint(key)).toBe(`${prefix}…${key.slice(-4)}`)
    // The material may start with underscores, which also end the prefix.
    const underscores = keyOf(`${prefix}__${material.slice(2)}`)
    expect(keyHint(underscores)).toBe(`${prefix}…${underscores.slice(-4)}`)
  })
})

test('a key with the checksum length of the other environment is refused', () => {
  expect(keyEnvironment(keyOf(`svc_prod_${material.slice(1)}`))).toBeUndefined()
  expect(keyEnvironment(keyOf(`svc_dev_${material}a`))).toBeUndefined()
})

test('a key’s hash is its SHA-256 in hex', () => {
  expect(hashKey('svc')).toBe(createHash('sha256').update('svc').digest('hex'))
})
