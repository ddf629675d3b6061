import { generateKey, hashKey, keyHint } from '@sluice/contracts/api-key'
import type { Environment } from '@sluice/contracts/scopes'
import type { KeyRecord } from '@sluice/postgres/keys'
import { ulid } from 'ulid'

/** A new key, to be shown once, with what is stored of it. */
export function newKey(environment: Environment): { key: string; stored: Pick<KeyRecord, 'keyId' | 'hash' | 'hint'> } {
  const key = generateKey(environment)
  return { key, stored: { keyId: `key_${ulid()}`, hash: hashKey(key), hint: keyHint(key) } }
}
