import { requireGrantable, requireRotatable, requireUsable } from '@sluice/access/key-granting'
import type { KeyStore } from '@sluice/access/keys'
import { newKey } from '@sluice/access/new-key'
import { operations } from '@sluice/api/operations'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { conflict, notFound } from '@sluice/runtime/errors'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { toKeyResource } from './key-resource.ts'

/**
 * POST /api/v1/settings/keys/:key_id/rotate: creates a key with the same grants, which only this response holds;
 * the old key works until the end of the overlap, but not beyond its own expiry (docs/http-interface.md#rotate-key).
 * Throws 403 for a key that has more rights than the key that asks or expires later, 404 for a missing or hidden key,
 * and 409 for a key that is revoked, expired or rotated already.
 */
export function rotateKeyRoute({ keys }: { keys: Pick<KeyStore, 'rotate' | 'findByHash'> }): Route {
  return handle(
    operations.rotateKey,
    async ({ params: { key_id: keyId }, body: { overlap }, credential, receivedAt, log }) => {
      let generated: ReturnType<typeof newKey> | undefined
      const rotate = () =>
        keys.rotate(keyId, credential.siteIds, (old) => {
          requireUsable(old, receivedAt)
          // A rotated key expires with its overlap, and a second replacement would expire with it.
          if (old.rotatedTo !== null) throw conflict(`Key was rotated: rotate its replacement, ${old.rotatedTo}`)
          requireGrantable(credential, old)
          requireRotatable(credential, old.expiresAt)
          generated = newKey(old.environment)
          return { replacement: generated.stored, oldExpiresAt: receivedAt + overlap }
        })
      // If the first rotation was stored, the second one is refused.
      const again = () =>
        rotate().catch(async (error: unknown) => {
          const stored = generated && (await keys.findByHash(generated.stored.hash))
          if (!stored) throw error
          return stored
        })
      const record = await retryUnknownOutcome(rotate, again)
      if (!record || !generated) throw notFound('Key')
      log({ rotated_key_id: keyId, created_key_id: record.keyId })
      return { ...toKeyResource(record), key: generated.key }
    },
  )
}
