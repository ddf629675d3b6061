import { expect, test } from '@jest/globals'
import { backupStore } from '@sluice/postgres/backups'
import { createMetrics } from '@sluice/runtime/metrics'
import { openTestPostgres } from '../../../tests/support/test-postgres.ts'
import { addBackupAge } from './backup-age.ts'

const hourMs = 3_600_000

test('the age of the last backup of the events is absent before the first, and grows while Postgres is unavailable', async () => {
  const postgres = await openTestPostgres()
  const backups = backupStore(postgres)
  const metrics = createMetrics()
  const clock = { nowMs: Date.now() }
  let isAway = false
  const lastFinishedAt = () => (isAway ? Promise.reject(new Error('away')) : backups.lastFinishedAt())
  addBackupAge(metrics, { lastFinishedAt }, { now: () => clock.nowMs })
  const age = async () => {
    const value = /^sluice_backup_age_seconds (\S+)$/m.exec(await metrics.metrics())?.[1]
    return value === undefined ? undefined : Number(value)
  }
  try {
    expect(await age()).toBeUndefined()
    const backup = { target: 'file:/backups/1', startedAt: clock.nowMs }
    await backups.add({ ...backup, backupId: 'bak_1', kind: 'postgres' })
    expect(await age()).toBeUndefined()
    await backups.add({ ...backup, backupId: 'bak_2', kind: 'full' })
    const finishedAt = (await backups.lastFinishedAt()) ?? 0
    clock.nowMs = finishedAt + hourMs
    expect(await age()).toBe(3600)
    isAway = true
    clock.nowMs += hourMs
    expect(await age()).toBe(7200)
  } finally {
    await postgres.drop()
  }
})
