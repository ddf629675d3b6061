import { hourMs } from '@sluice/contracts/time-units'
import { erasureStore } from '@sluice/postgres/erasures'
import { poller } from '@sluice/runtime/poller'
import type { WorkerTask } from '../worker-task.ts'

/** An erasure is completed within 24 hours. */
const intervalMs = hourMs

/** Makes erasures due again, every hour, that a worker of an earlier build has left without a due time. */
export const stalledErasures: WorkerTask = ({ postgres }, { logger }) => {
  const store = erasureStore(postgres)
  return poller({
    name: 'stalled erasures',
    intervalMs,
    poll: () => store.resumeStalled(),
    onUnavailable: (error) => {
      logger.warn({ err: error }, 'stalled erasures could not be resumed, retrying')
    },
  })
}
