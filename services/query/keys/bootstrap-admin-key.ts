import { hashKey } from '@sluice/access/api-key'
import { type KeyStore, unusableReason } from '@sluice/access/keys'
import { createAdminKey } from '@sluice/postgres/admin-key'
import type { Clock } from '@sluice/runtime/clock'
import type { Logger } from '@sluice/runtime/logger'
import { startupTask } from '@sluice/runtime/startup-task'
import type { Component } from '@sluice/runtime/supervisor'

const defaultRetryMs = 1_000

/**
 * Creates the component that stores SLUICE_ADMIN_KEY as an admin key at the start, or once Postgres can be reached
 * (docs/http-interface.md#first-admin-key). A stored key does not change; a revoked or an expired one is logged.
 * Without the variable and without any stored key a log line says how to make one. `key` is well-formed, because the
 * configuration accepts no other (packages/access/variables.ts).
 */
export function bootstrapAdminKey(
  key: string | undefined,
  keys: Pick<KeyStore, 'hasAny' | 'create' | 'findByHash'>,
  { logger, clock }: { logger: Logger; clock: Pick<Clock, 'now'> },
  retryMs = defaultRetryMs,
): Component {
  async function storeKey(): Promise<void> {
    if (key === undefined) {
      if (!(await keys.hasAny())) {
        logger.warn('no API key exists: run "npm run admin-key", or set SLUICE_ADMIN_KEY and restart')
      }
      return
    }
    const stored = await keys.findByHash(hashKey(key))
    if (!stored) {
      await createAdminKey(keys, key)
      logger.info('stored SLUICE_ADMIN_KEY as an admin key')
      return
    }
    const reason = unusableReason(stored, clock.now())
    if (reason !== undefined) {
      logger.warn(
        { key_id: stored.keyId },
        `SLUICE_ADMIN_KEY is ${reason === 'expired' ? 'an expired' : 'a revoked'} key, and a restart does not renew it: "npm run admin-key" creates another one`,
      )
    }
  }

  return startupTask({ name: 'admin key', attempt: storeKey, retryMs })
}
