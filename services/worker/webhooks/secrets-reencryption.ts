import { countOtherKey, reencryptEndpoints } from '@sluice/postgres/reencrypt'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'
import type { TaskContext, WorkerEngines } from '../worker-task.ts'
import { endpointsOfOtherKey } from './metrics.ts'

const intervalMs = 60_000

/**
 * Re-encrypts the secrets that are encrypted with the previous key, with the present SLUICE_SECRETS_KEY. Logs when the
 * previous key is no longer needed, and when neither key can decrypt a stored secret. It repeats this, because a
 * process that is not restarted yet still encrypts with the previous key.
 */
export function secretsReencryption(
  { postgres, secrets }: Pick<WorkerEngines, 'postgres' | 'secrets'>,
  { logger, metrics }: Pick<TaskContext, 'logger' | 'metrics'>,
): Component {
  const gauge = endpointsOfOtherKey(metrics)
  let lastCount: number | undefined
  return poller({
    name: 'secrets of another key',
    intervalMs,
    poll: async () => {
      const reencrypted = await reencryptEndpoints(postgres, secrets)
      const endpoints = await countOtherKey(postgres, secrets)
      gauge.set(endpoints)
      if (reencrypted > 0)
        logger.info({ endpoints: reencrypted }, 'URLs and secrets re-encrypted with SLUICE_SECRETS_KEY')
      if (endpoints === lastCount && reencrypted === 0) return
      lastCount = endpoints
      if (endpoints > 0) logger.error({ endpoints }, otherKey)
      else if (secrets.prefixes.previous) logger.warn(previousUnneeded)
    },
  })
}

const otherKey =
  'URLs or secrets of webhooks and alert rules were stored with another SLUICE_SECRETS_KEY: their deliveries wait. ' +
  'Set SLUICE_SECRETS_KEY_PREVIOUS to that key.'
const previousUnneeded =
  'Nothing is stored with SLUICE_SECRETS_KEY_PREVIOUS any more: remove it when every process has the new key.'
