import type { Parameter } from './types.ts'

const carriedOutOnce =
  'With this header, the request is carried out once. For 24 hours, a repeated request with the same body gets the first answer. A repeated request with another body, or before the first answer, is answered 409. A key whose stored answers take more than 16 MiB gets 429.'
const generatedSecretIsNotKept =
  'An answer that contains a generated secret is not stored: to have such a request carried out once, send a secret of your own.'

/**
 * The header of an idempotent operation. `mayHaveGeneratedSecret`: its answer may have a secret that was generated for
 * it.
 */
export function idempotencyKey({ mayHaveGeneratedSecret }: { mayHaveGeneratedSecret: boolean }): Parameter {
  return {
    name: 'Idempotency-Key',
    in: 'header',
    description: mayHaveGeneratedSecret ? `${carriedOutOnce} ${generatedSecretIsNotKept}` : carriedOutOnce,
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  }
}
