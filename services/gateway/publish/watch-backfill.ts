import type { EventLog } from '@sluice/event-log/log'
import type { WatermarkStore } from '@sluice/postgres/watermarks'
import { poller } from '@sluice/runtime/poller'
import type { Component } from '@sluice/runtime/supervisor'

const defaultIntervalMs = 1_000

/** Watches whether a writer reads the backfill log. */
export interface BackfillWatch extends Component {
  /** True once old events may be published to the backfill log. */
  isRead: () => boolean
}

/**
 * Polls Postgres until a writer has reported that it reads the backfill log, because writers of an earlier build do not
 * read it. Logs with different numbers of partitions are not used, because copies of an event must be in partitions of
 * the same number.
 */
export function watchBackfill({
  log,
  backfill,
  store,
  intervalMs = defaultIntervalMs,
}: {
  log: Pick<EventLog, 'id' | 'partitions'>
  backfill: Pick<EventLog, 'partitions'>
  store: Pick<WatermarkStore, 'isBackfillRead'>
  intervalMs?: number
}): BackfillWatch {
  let isRead = false
  const polling = poller({
    name: 'backfill watch',
    intervalMs,
    poll: async () => {
      if (isRead || !(await store.isBackfillRead(await log.id()))) return
      isRead = (await log.partitions()) === (await backfill.partitions())
    },
  })
  return { ...polling, isRead: () => isRead }
}
