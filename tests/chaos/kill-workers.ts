import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { waitUntil } from '@sluice/runtime/wait-until'
import type { ServiceProcess } from '../support/service-process.ts'
import type { JobsRig } from './jobs-rig.ts'
import type { Say } from './scenario.ts'

/** A job whose workers are killed. */
export interface KilledJob {
  kind: 'import' | 'export' | 'erasure'
  id: string
}

export interface KillOptions {
  /** Maximum number of workers that are killed. */
  kills: number
  random: () => number
  say: Say
  /** Unix ms: throws after that. */
  deadline: number
}

interface JobState {
  hasEnded: boolean
  isHeld: boolean
  progress: string
}

const tables = {
  import: { table: 'imports', id: 'import_id', progress: 'processed_records' },
  export: { table: 'exports', id: 'export_id', progress: 'rows' },
  erasure: { table: 'erasures', id: 'erasure_id', progress: 'step' },
} as const

/**
 * Maximum time in ms from taking the job until the worker is killed. After n kills in a row without progress, it is
 * n + 1 times as long.
 */
const windowsMs = { import: 1_500, export: 3_000, erasure: 800 } as const
/**
 * Ten kills in a row without progress make a job fail, as intended. So after this number, which is lower, the next
 * worker is killed only after it has made progress.
 */
const idleMax = 5
const takenTimeoutMs = 60_000
const endedTimeoutMs = 120_000
/** How often the worker is asked whether it is ready, as an orchestrator does. */
const readinessMs = 50

/**
 * Starts workers, one after the other, and sends SIGKILL to each at a random moment of its work on the job, until the
 * kills are used up or the job has ended by itself; the last worker is stopped when the job has ended. Returns how many
 * were killed before that. The leases of a killed worker are ended at once, so that the run need not wait for their
 * time.
 */
export async function killWorkers(rig: JobsRig, job: KilledJob, options: KillOptions): Promise<number> {
  const { kills, random, say, deadline } = options
  const reached = async (isThere: (state: JobState) => boolean, what: string, timeoutMs: number): Promise<JobState> => {
    let state = await stateOf(rig, job)
    await waitUntil(
      async () => {
        if (Date.now() > deadline) throw new Error(`${what}: the time of the run is over`)
        state = await stateOf(rig, job)
        return isThere(state)
      },
      `${what} (${job.kind} ${job.id})`,
      timeoutMs,
    )
    return state
  }
  let killed = 0
  let idle = 0
  let last = ''
  for (;;) {
    const worker = await rig.startWorker()
    const stopAsking = askReadiness(worker)
    try {
      if (killed === kills) {
        await reached(({ hasEnded }) => hasEnded, 'the last worker ends the job', endedTimeoutMs)
        return killed
      }
      await reached(({ hasEnded, isHeld }) => hasEnded || isHeld, 'a worker takes the job', takenTimeoutMs)
      if (idle === idleMax) {
        const known = last
        await reached(({ hasEnded, progress }) => hasEnded || progress !== known, 'a worker goes on', endedTimeoutMs)
      }
      const momentMs = Math.round(random() * windowsMs[job.kind] * (1 + idle))
      await sleep(momentMs)
      await kill(worker)
      const { hasEnded, progress } = await stateOf(rig, job)
      if (hasEnded) return killed
      killed++
      say(`kill ${killed}: ${job.kind} ${job.id}, ${momentMs} ms after a worker took it, ${progress} recorded`)
      idle = progress === last ? idle + 1 : 0
      last = progress
      await endLeases(rig)
    } catch (error) {
      say(`the worker said: ${worker.output().slice(-2_000)}`)
      throw error
    } finally {
      stopAsking()
      await kill(worker)
      await endLeases(rig)
    }
  }
}

async function kill(worker: ServiceProcess): Promise<void> {
  worker.signal('SIGKILL')
  await worker.exited
}

async function stateOf({ postgres }: JobsRig, { kind, id }: KilledJob): Promise<JobState> {
  const { table, id: idColumn, progress } = tables[kind]
  // Otherwise deletions would wait for the next full hour, and failed jobs for up to minutes.
  await sql`UPDATE ${sql.table(table)} SET due_at = now() WHERE due_at > now() AND lease_until IS NULL`.execute(
    postgres.db,
  )
  const { rows } = await sql<{ status: string; is_held: boolean; progress: string }>`
    SELECT status, lease_until IS NOT NULL AS is_held, ${sql.ref(progress)}::text AS progress
    FROM ${sql.table(table)} WHERE ${sql.ref(idColumn)} = ${id}`.execute(postgres.db)
  const [row] = rows
  if (row === undefined) throw new Error(`there is no ${kind} ${id}`)
  return { hasEnded: !['queued', 'processing'].includes(row.status), isHeld: row.is_held, progress: row.progress }
}

/** Called while no worker runs, so every lease belongs to a dead worker. */
async function endLeases({ postgres }: JobsRig): Promise<void> {
  for (const table of ['imports', 'exports', 'erasures', 'chores', 'export_schedules']) {
    await sql`UPDATE ${sql.table(table)} SET lease_until = now() WHERE lease_until > now()`.execute(postgres.db)
  }
}

function askReadiness({ url }: ServiceProcess): () => void {
  const timer = setInterval(() => {
    fetch(`${url}/readyz`)
      .then((response) => response.arrayBuffer())
      .catch(() => undefined)
  }, readinessMs)
  return () => clearInterval(timer)
}
