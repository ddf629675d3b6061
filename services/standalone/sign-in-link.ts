import { randomBytes } from 'node:crypto'
import type { KeyStore } from '@sluice/access/keys'
import type { SignInCodes } from '@sluice/access/sign-in-codes'
import { hashToken } from '@sluice/http/authenticate'
import { isRetryable } from '@sluice/runtime/errors'

const codeBytes = 32

/**
 * A link to the dashboard with a new sign-in code (docs/http-interface.md#sign-in-codes). The code stands in the
 * fragment, which browsers send to nobody. Undefined without an admin key that may be signed in, and while Redis or
 * Postgres is unavailable: a start does not fail because of a missing link.
 */
export async function signInLink(
  origin: string,
  { keys, signInCodes }: { keys: Pick<KeyStore, 'newestAdmin'>; signInCodes: Pick<SignInCodes, 'create'> },
): Promise<string | undefined> {
  try {
    const key = await keys.newestAdmin()
    if (!key) return undefined
    const code = randomBytes(codeBytes).toString('base64url')
    await signInCodes.create(hashToken(code), { keyHash: key.hash })
    return `${origin}/#code=${code}`
  } catch (error) {
    if (isRetryable(error)) return undefined
    throw error
  }
}
