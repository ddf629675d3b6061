import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { holdEngine } from '../../tests/support/engines/hold-engine-process.ts'
import { lockDataFolder } from './data-folder.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
const dir = join(root, 'engine')

afterEach(() => {
  rmSync(root, { recursive: true, force: true })
})

describe('lockDataFolder', () => {
  test('creates a folder that only its user may enter', () => {
    const lock = lockDataFolder(dir, 'Test')
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    lock.release()
  })

  test('refuses a folder that holds other files, and leaves it as it is', () => {
    mkdirSync(dir, { recursive: true })
    chmodSync(dir, 0o755)
    writeFileSync(join(dir, 'mine.txt'), 'mine')
    expect(() => lockDataFolder(dir, 'Test')).toThrow(
      `Test folder ${dir} holds other files: name an empty or a new one`,
    )
    expect(statSync(dir).mode & 0o777).toBe(0o755)
    expect(readdirSync(dir)).toEqual(['mine.txt'])
  })

  test.each([
    ['missing below a folder that takes none', '/proc/sluice', 'ENOENT'],
    ['a file', '/dev/null', 'ENOTDIR'],
    ['below a file', '/dev/null/sluice', 'ENOTDIR'],
  ])('refuses a folder that is %s, with the reason and what to do', (_, folder, code) => {
    expect(() => lockDataFolder(folder, 'Test')).toThrow(
      new RegExp(
        `^Test folder ${folder} can't be used \\(.*${code}: .*\\): let this user write it, or set SLUICE_DATA_DIR`,
      ),
    )
  })

  test('refuses a second lock in the same process, until the first is released', () => {
    const lock = lockDataFolder(dir, 'Test')
    expect(() => lockDataFolder(dir, 'Test')).toThrow(
      `Test folder ${dir} is in use by this process (pid ${process.pid})`,
    )
    lock.release()
    lock.release()
    lockDataFolder(dir, 'Test').release()
  })

  test('refuses a folder that another process holds and names it', async () => {
    const holder = await holdEngine('lock', dir)
    expect(() => lockDataFolder(dir, 'Test')).toThrow(
      `Test folder ${dir} is in use by another process (pid ${holder.pid}): stop it, or set SLUICE_DATA_DIR`,
    )
    await holder.killHolder()
  })

  test('refuses a second process while this one holds the folder', async () => {
    const lock = lockDataFolder(dir, 'Test')
    await expect(holdEngine('lock', dir)).rejects.toThrow(`is in use by another process (pid ${process.pid})`)
    lock.release()
  })

  test('locks a folder at once after its holder was killed by SIGKILL', async () => {
    const holder = await holdEngine('lock', dir)
    await holder.killHolder()
    lockDataFolder(dir, 'Test').release()
  })
})
