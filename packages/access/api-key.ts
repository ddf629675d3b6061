import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Environment } from '@sluice/contracts/scopes'

/** Total length of every key: prefix, 32 characters of material, checksum (docs/http-interface.md#key-format). */
export const keyLength = 43
const materialLength = 32
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefixes = { prod: 'svc_prod_', dev: 'svc_dev_' } as const

/** Returns the last `digits` base62 digits of the CRC-32 (IEEE) of `text`. */
function checksum(text: string, digits: number): string {
  let remainder = crc32(text)
  let out = ''
  for (let i = 0; i < digits; i++) {
    out = base62.charAt(remainder % 62) + out
    remainder = Math.floor(remainder / 62)
  }
  return out
}

/** Appends the checksum to `prefix + material`. */
function appendChecksum(unchecked: string): string {
  return unchecked + checksum(unchecked, keyLength - unchecked.length)
}

/**
 * Returns a new key from the system's CSPRNG (docs/http-interface.md#key-format): 32 base62 characters are 190 bits.
 */
export function generateKey(environment: Environment): string {
  let material = ''
  while (material.length < materialLength) {
    for (const byte of randomBytes(materialLength * 2)) {
      // 248 = 4 × 62: larger bytes would favour the first characters.
      if (byte < 248 && material.length < materialLength) material += base62.charAt(byte % 62)
    }
  }
  return appendChecksum(prefixes[environment] + material)
}

/** Returns the environment of a well-formed key; undefined when prefix, characters, length or checksum are wrong. */
export function keyEnvironment(key: string): Environment | undefined {
  if (key.length !== keyLength || !/^\w+$/.test(key)) return undefined
  const environment = key.startsWith(prefixes.prod) ? 'prod' : key.startsWith(prefixes.dev) ? 'dev' : undefined
  if (environment === undefined) return undefined
  const unchecked = key.slice(0, prefixes[environment].length + materialLength)
  return appendChecksum(unchecked) === key ? environment : undefined
}

/** Returns the SHA-256 of a key in hex, the only form in which a key is stored or cached. */
export function hashKey(key: string): string {
  return hash('sha256', key)
}

/** Returns the hint of a key's record: prefix and last four characters, `svc_prod_…a1B2`. */
export function keyHint(key: string): string {
  // The prefix can't be found by its last underscore: the material may start with underscores.
  const prefix = key.startsWith(prefixes.prod) ? prefixes.prod : prefixes.dev
  return `${prefix}…${key.slice(-4)}`
}
