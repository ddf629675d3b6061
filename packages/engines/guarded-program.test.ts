import { afterAll, describe, expect, test } from '@jest/globals'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runGuarded, type GuardedProgram } from './guarded-program.ts'
import { holdEngine } from './hold-engine-process.ts'
import { isAlive, waitUntil } from './processes.ts'

const dir = mkdtempSync(join(tmpdir(), 'sluice-guarded-'))
const logFile = join(dir, 'log')

afterAll(() => {
  rmSync(dir, { recursive: true, force: true })
})

function runShell(script: string): Promise<GuardedProgram> {
  const program = { command: '/bin/sh', args: ['-c', script], cwd: dir, env: { GIVEN: 'given' } }
  return runGuarded({ ...program, signalWhenOrphaned: 'SIGKILL' }, logFile)
}

describe('runGuarded', () => {
  test('runs a program in the environment that it is given, and no more', async () => {
    process.env.SLUICE_TEST_SECRET = 'secret'
    const program = await runShell('env')
    delete process.env.SLUICE_TEST_SECRET
    expect(await program.exited).toBe('code 0')
    expect(readFileSync(logFile, 'utf8')).toContain('GIVEN=given')
    expect(readFileSync(logFile, 'utf8')).not.toContain('secret')
  })

  test('says how it ended', async () => {
    const program = await runShell('exit 3')
    expect(await program.exited).toBe('code 3')
    expect(program.hasExited()).toBe(true)
  })

  test('passes signals on to it', async () => {
    const program = await runShell('trap "exit 7" TERM; echo ready; while :; do :; done')
    await waitUntil(() => readFileSync(logFile, 'utf8') === 'ready\n', 'the program', 5_000)
    program.signal('SIGTERM')
    expect(await program.exited).toBe('code 7')
  })

  test('throws when there is no such program', async () => {
    const program = { command: '/no/such/program', args: [], cwd: dir, env: {}, signalWhenOrphaned: 'SIGKILL' } as const
    await expect(runGuarded({ ...program, args: [] }, logFile)).rejects.toThrow('ENOENT')
  })

  test('ends it when the parent was killed', async () => {
    const holder = await holdEngine('program', dir)
    expect(isAlive(holder.pid)).toBe(true)
    await holder.killHolder()
    await waitUntil(() => !isAlive(holder.pid), 'end of the program', 2_000)
  })
})
