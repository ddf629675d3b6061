import type { StatsFs } from 'node:fs'

/**
 * The size of a file system and what its user may still write, in bytes. POSIX counts blocks of `frsize` bytes. On file
 * systems such as the folders that Docker Desktop shares with containers, `bsize` is 256 times as large.
 */
export function diskSpace({ bavail, blocks, frsize }: Pick<StatsFs, 'bavail' | 'blocks' | 'frsize'>): {
  freeBytes: number
  sizeBytes: number
} {
  return { freeBytes: bavail * frsize, sizeBytes: blocks * frsize }
}
