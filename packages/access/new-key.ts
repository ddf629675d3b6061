import type { Environment } from '@sluice/contracts/scopes'
import { newId } from '@sluice/runtime/ids'
import { generateKey, hashKey, keyHint } from './api-key.ts'
import type { KeyRecord } from './keys.ts'

/** Creates a key. `key` is shown to the client once; `stored` is the part of the record that depends on it. */
export function newKey(environment: Environment): { key: string; stored: Pick<KeyRecord, 'keyId' | 'hash' | 'hint'> } {
  const key = generateKey(environment)
  return { key, stored: { keyId: newId('key'), hash: hashKey(key), hint: keyHint(key) } }
}
