import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testWith } from './describe-with.ts'

/** What tests that fill a disk need: root of a Linux without further restrictions has it. */
export const mountRight = 'right to mount a tmpfs'

/** Mounts a tmpfs at a folder. `options` are those of mount(8), e.g. `size=64k`. */
export function mountTmpfs(folder: string, options: string): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { stdio: 'pipe' })
}

export function unmount(folder: string): void {
  execFileSync('umount', [folder], { stdio: 'pipe' })
}

/** Tries it on a folder of its own. */
export function canMountTmpfs(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-tmpfs-'))
  try {
    mountTmpfs(folder, 'size=64k')
    unmount(folder)
    return true
  } catch {
    return false
  } finally {
    rmdirSync(folder)
  }
}

/** `test` for tests that mount a tmpfs. */
export const testWithTmpfs = testWith(mountRight, canMountTmpfs())
