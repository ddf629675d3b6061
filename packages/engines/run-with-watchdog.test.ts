import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { holdEngine } from '../../tests/support/engines/hold-engine-process.ts'
import { isAlive } from './processes.ts'
import { runWithWatchdog, type WatchedProgram } from './run-with-watchdog.ts'

const dir = mkdtempSync(join(tmpdir(), 'sluice-guarded-'))
const logFile = join(dir, 'log')

afterAll(() => {
  rmSync(dir, { recursive: true, force: true })
})

function runShell(script: string): Promise<WatchedProgram> {
  const program = { command: '/bin/sh', args: ['-c', script], cwd: dir, env: { GIVEN: 'given' } }
  return runWithWatchdog({ ...program, signalWhenOrphaned: 'SIGKILL' }, logFile)
}

describe('runWithWatchdog', () => {
  test('runs a program with nothing but the given environment', async () => {
    process.env.SLUICE_TEST_SECRET = 'secret'
    const program = await runShell('env')
    delete process.env.SLUICE_TEST_SECRET
    expect(await program.exited).toBe('code 0')
    expect(readFileSync(logFile, 'utf8')).toContain('GIVEN=given')
    expect(readFileSync(logFile, 'utf8')).not.toContain('secret')
  })

  test('resolves with how the program ended', async () => {
    const program = await runShell('exit 3')
    expect(await program.exited).toBe('code 3')
    expect(program.hasExited()).toBe(true)
  })

  test('passes signals on to the program', async () => {
    const program = await runShell('trap "exit 7" TERM; echo ready; while :; do :; done')
    await waitUntil(() => readFileSync(logFile, 'utf8') === 'ready\n', 'the program')
    program.signal('SIGTERM')
    expect(await program.exited).toBe('code 7')
  })

  test('throws when there is no such program', async () => {
    const program = { command: '/no/such/program', args: [], cwd: dir, env: {}, signalWhenOrphaned: 'SIGKILL' } as const
    await expect(runWithWatchdog({ ...program, args: [] }, logFile)).rejects.toThrow('ENOENT')
  })

  test('ends the program when the parent process was killed', async () => {
    const holder = await holdEngine('program', dir)
    expect(isAlive(holder.pid)).toBe(true)
    await holder.killHolder()
    await waitUntil(() => !isAlive(holder.pid), 'end of the program')
  })
})
