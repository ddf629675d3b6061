import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import type { IdempotencyStore, StoredResponse } from './idempotency.ts'

/**
 * An idempotency store that holds nothing in plain text: bodies and responses may hold URLs and secrets of webhooks,
 * which are stored encrypted everywhere else, too. Responses are encrypted, and the fingerprints of bodies are keyed,
 * so that short secrets can't be guessed from them. After a rotation of SLUICE_SECRETS_KEY a repeat has another
 * fingerprint: it is answered 409, and not carried out again.
 */
export function encryptedIdempotency(
  store: IdempotencyStore,
  secrets: Pick<SecretCipher, 'encrypt' | 'decrypt' | 'fingerprint'>,
): IdempotencyStore {
  const keyed = (fingerprint: string): string => secrets.fingerprint(fingerprint).toString('hex')
  const encrypted = (data: unknown): string => secrets.encrypt(JSON.stringify(data)).toString('base64')
  const decrypted = (data: unknown): unknown => JSON.parse(secrets.decrypt(Buffer.from(String(data), 'base64')))
  const replaceData = (response: StoredResponse, change: (data: unknown) => unknown): StoredResponse =>
    response.data === undefined ? response : { ...response, data: change(response.data) }

  return {
    claim: async (id, fingerprint, owner) => {
      const result = await store.claim(id, keyed(fingerprint), owner)
      return result.state === 'answered' ? { ...result, answer: replaceData(result.answer, decrypted) } : result
    },
    complete: async (id, fingerprint, answer) => {
      await store.complete(id, keyed(fingerprint), replaceData(answer, encrypted))
    },
    release: (id, owner) => store.release(id, owner),
  }
}
