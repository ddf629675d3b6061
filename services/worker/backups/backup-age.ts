import type { BackupStore } from '@sluice/postgres/backups'
import type { Clock } from '@sluice/runtime/clock'
import { Gauge, type Metrics, scrapeReader } from '@sluice/runtime/metrics'

/** Adds `sluice_backup_age_seconds`: `npm run backup` notes in Postgres when it has finished. */
export function addBackupAge(
  metrics: Metrics,
  backups: Pick<BackupStore, 'lastFinishedAt'>,
  clock: Pick<Clock, 'now'>,
): void {
  const readFinished = scrapeReader(() => backups.lastFinishedAt())
  new Gauge({
    name: 'sluice_backup_age_seconds',
    help: 'Time since the last backup of the events was finished; absent before the first.',
    registers: [metrics],
    // While Postgres is unavailable, the last answer stays and the age grows; /readyz reports the outage.
    async collect() {
      const finishedAt = await readFinished()
      if (finishedAt === undefined) this.remove()
      else this.set(Math.max(0, clock.now() - finishedAt) / 1000)
    },
  })
}
