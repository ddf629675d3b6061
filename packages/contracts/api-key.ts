import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Environment } from './scopes.ts'

/** Total length of every key: prefix, 32 characters of material, checksum (contract section 2). */
export const keyLength = 43
const materialLength = 32
const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefixes = { prod: 'svc_prod_', dev: 'svc_dev_' } as const

/** The last `digits` base62 digits of the CRC-32 (IEEE) of `text`. */
function checksum(text: string, digits: number): string {
  let rest = crc32(text)
  let out = ''
  for (let i = 0; i < digits; i++) {
    out = base62.charAt(rest % 62) + out
    rest = Math.floor(rest / 62)
  }
  return out
}

/** Completes `prefix + material` to a key by its checksum. */
function complete(unchecked: string): string {
  return unchecked + checksum(unchecked, keyLength - unchecked.length)
}

/** A new key from the system's CSPRNG: 32 base62 characters are 190 bits. */
export function generateKey(environment: Environment): string {
  let material = ''
  while (material.length < materialLength) {
    for (const byte of randomBytes(materialLength * 2)) {
      // 248 = 4 × 62: larger bytes would favour the first characters.
      if (byte < 248 && material.length < materialLength) material += base62.charAt(byte % 62)
    }
  }
  return complete(prefixes[environment] + material)
}

/** The environment of a well-formed key, or undefined when prefix, characters, length or checksum are wrong. */
export function keyEnvironment(key: string): Environment | undefined {
  if (key.length !== keyLength || !/^\w+$/.test(key)) return undefined
  const environment = key.startsWith(prefixes.prod) ? 'prod' : key.startsWith(prefixes.dev) ? 'dev' : undefined
  if (environment === undefined) return undefined
  const unchecked = key.slice(0, prefixes[environment].length + materialLength)
  return complete(unchecked) === key ? environment : undefined
}

/** SHA-256 of a key in hex: all that is ever stored or cached of it. */
export function hashKey(key: string): string {
  return hash('sha256', key)
}

/** How a record names its key to people: prefix and the last four characters, `svc_prod_…a1B2`. */
export function keyHint(key: string): string {
  // Material may start with underscores: it is no part of the prefix.
  const prefix = key.startsWith(prefixes.prod) ? prefixes.prod : prefixes.dev
  return `${prefix}…${key.slice(-4)}`
}
