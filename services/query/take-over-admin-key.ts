import { hashKey, keyEnvironment } from '@sluice/contracts/api-key'
import { SluiceError } from '@sluice/contracts/errors'
import { createAdminKey } from '@sluice/postgres/admin-key'
import type { KeyStore } from '@sluice/postgres/keys'
import type { Logger } from '@sluice/runtime/logger'
import { type Component, FatalError, pause } from '@sluice/runtime/supervisor'

const defaultRetryMs = 1_000

/**
 * Stores SLUICE_ADMIN_KEY as an admin key at the start, once Postgres answers. A key that is known stays as it is,
 * a revoked or expired one stays that. Without the variable and without any key it says how to get one.
 * Throws FatalError for a key that is mistyped.
 */
export function takeOverAdminKey(
  key: string | undefined,
  keys: Pick<KeyStore, 'any' | 'create' | 'findByHash'>,
  logger: Logger,
  retryMs = defaultRetryMs,
): Component {
  let done = false

  async function attempt(): Promise<void> {
    if (key === undefined) {
      if (!(await keys.any())) {
        logger.warn('there is no API key yet: run "npm run admin-key", or set SLUICE_ADMIN_KEY and start again')
      }
      return
    }
    if (keyEnvironment(key) === undefined) {
      throw new FatalError(
        'SLUICE_ADMIN_KEY is not a key: prefix, length or checksum are wrong. "npm run admin-key" makes one.',
      )
    }
    const hash = hashKey(key)
    const known = await keys.findByHash(hash)
    if (known && (known.revokedAt !== null || (known.expiresAt !== null && known.expiresAt.getTime() <= Date.now()))) {
      logger.warn(
        { key_id: known.keyId },
        `SLUICE_ADMIN_KEY is ${known.revokedAt === null ? 'an expired' : 'a revoked'} key and stays that: "npm run admin-key" makes a new one`,
      )
    } else if (!known) {
      await createAdminKey(keys, key)
      logger.info('SLUICE_ADMIN_KEY was taken over')
    }
  }

  /** False while Postgres is away. */
  async function tryOnce(): Promise<boolean> {
    try {
      await attempt()
      return true
    } catch (error) {
      if (error instanceof SluiceError && error.retryable) return false
      throw error
    }
  }

  return {
    name: 'admin key',
    start: async () => {
      done = await tryOnce()
    },
    run: async (signal) => {
      while (!done) {
        await pause(retryMs, signal)
        if (signal.aborted) return
        done = await tryOnce()
      }
    },
  }
}
