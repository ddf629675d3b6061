import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import type { SecretCipher } from '@sluice/runtime/secret-cipher'
import type { IdempotencyStore, StoredResponse } from './idempotency.ts'

const deflate = promisify<Buffer, Buffer>(deflateRaw)
const inflate = promisify<Buffer, Buffer>(inflateRaw)
/** Precedes what is compressed. Builds that did not compress stored base64 alone, which has no colon. */
const compressedMark = 'deflate:'

/**
 * An idempotency store that holds nothing in plain text: bodies and responses may hold URLs and secrets of webhooks,
 * which are stored encrypted everywhere else, too. Responses are encrypted, and the fingerprints of bodies are keyed,
 * so that short secrets can't be guessed from them. After a rotation of SLUICE_SECRETS_KEY a repeat has another
 * fingerprint: it is answered 409, and not carried out again. Responses are compressed first, because the escapes of
 * JSON can make a response six times as large as the values that it repeats.
 */
export function encryptedIdempotency(
  store: IdempotencyStore,
  secrets: Pick<SecretCipher, 'encrypt' | 'decrypt' | 'decryptBytes' | 'fingerprint'>,
): IdempotencyStore {
  const keyed = (fingerprint: string): string => secrets.fingerprint(fingerprint).toString('hex')
  const encrypted = async (data: unknown): Promise<string> =>
    compressedMark + secrets.encrypt(await deflate(Buffer.from(JSON.stringify(data)))).toString('base64')
  const decrypted = async (data: unknown): Promise<unknown> => {
    const text = String(data)
    if (!text.startsWith(compressedMark)) return JSON.parse(secrets.decrypt(Buffer.from(text, 'base64')))
    const compressed = secrets.decryptBytes(Buffer.from(text.slice(compressedMark.length), 'base64'))
    return JSON.parse((await inflate(compressed)).toString())
  }
  const replaceData = async (
    response: StoredResponse,
    change: (data: unknown) => Promise<unknown>,
  ): Promise<StoredResponse> =>
    response.data === undefined ? response : { ...response, data: await change(response.data) }

  return {
    claim: async (id, fingerprint, owner, keyId) => {
      const result = await store.claim(id, keyed(fingerprint), owner, keyId)
      return result.state === 'answered' ? { ...result, answer: await replaceData(result.answer, decrypted) } : result
    },
    complete: async (id, fingerprint, answer, keyId) => {
      await store.complete(id, keyed(fingerprint), await replaceData(answer, encrypted), keyId)
    },
    release: (id, owner) => store.release(id, owner),
  }
}
