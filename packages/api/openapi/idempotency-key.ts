import type { Parameter } from './types.ts'

const carriedOutOnce =
  'Carries the request out once: a repeat with the same body gets the first answer for 24 hours, one with another body, or while the first is under way, 409.'
const generatedSecretIsNotKept =
  'An answer with a generated secret is not kept: to carry such a request out once, send a secret of your own.'

/** The header of an idempotent operation. `hasGeneratedSecret`: its answer may have a secret that was generated for it. */
export function idempotencyKey({ hasGeneratedSecret }: { hasGeneratedSecret: boolean }): Parameter {
  return {
    name: 'Idempotency-Key',
    in: 'header',
    description: hasGeneratedSecret ? `${carriedOutOnce} ${generatedSecretIsNotKept}` : carriedOutOnce,
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  }
}
