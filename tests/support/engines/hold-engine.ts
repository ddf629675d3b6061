// For tests: a process that holds an engine until it is killed. `node hold-engine.ts <kind> <dir>` prints one line of
// JSON.
import { join } from 'node:path'
import { startClickHouse } from '@sluice/engines/clickhouse'
import { lockDataFolder } from '@sluice/engines/data-folder'
import { startPostgres } from '@sluice/engines/postgres'
import { runWithWatchdog } from '@sluice/engines/run-with-watchdog'

export type EngineKind = keyof typeof engines

/** The id of the engine's own process, and the URL where it answers. */
export interface HeldEngine {
  pid: number
  url: string
}

const engines = {
  clickhouse: async (dir: string): Promise<HeldEngine> => await startClickHouse({ dir }),
  postgres: async (dir: string): Promise<HeldEngine> => await startPostgres({ dir, durable: false }),
  // A program that only SIGKILL ends takes the place of Kafka, which takes seconds to start.
  program: async (dir: string): Promise<HeldEngine> => {
    const args = ['-c', "trap '' TERM; while :; do sleep 60; done"]
    const program = { command: '/bin/sh', args, cwd: dir, env: { PATH: process.env.PATH ?? '' } }
    const { pid } = await runWithWatchdog({ ...program, signalWhenOrphaned: 'SIGKILL' }, join(dir, 'log'))
    return { pid, url: '' }
  },
  lock: (dir: string): Promise<HeldEngine> => {
    const lock = lockDataFolder(dir, 'Test')
    process.on('exit', () => lock.release())
    return Promise.resolve({ pid: process.pid, url: '' })
  },
}

const [kind = '', dir = ''] = process.argv.slice(2)
const { pid, url } = await engines[kind as EngineKind](dir)
console.log(JSON.stringify({ pid, url }))
setInterval(() => undefined, 60_000)
