import type { DatabaseSync } from 'node:sqlite'

/** A file with more bytes of blocks is not compacted: that copies them, and publishes wait meanwhile. */
const compactBytesMax = 16 * 1024 * 1024

/**
 * Removes the bytes of deleted blocks from the file and its WAL, where an erased person could still be read, and returns
 * their space to the disk. `PRAGMA secure_delete` would write 1.5 times as many bytes for each publish.
 */
function compact(db: DatabaseSync): void {
  const usedPages = pragma(db, 'page_count') - pragma(db, 'freelist_count')
  try {
    if (usedPages * pragma(db, 'page_size') <= compactBytesMax) db.exec('VACUUM')
  } finally {
    // A full disk may have no room to compact the file, but gets back that of the WAL.
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  }
}

/**
 * `later` compacts the file within `afterMs`, without waiting; `now` does so at once, cancels a compaction that waits,
 * and throws what SQLite throws.
 */
export function compaction(db: DatabaseSync, afterMs: number): { later: () => void; now: () => void } {
  let timer: NodeJS.Timeout | undefined
  const now = () => {
    clearTimeout(timer)
    timer = undefined
    compact(db)
  }
  const later = () => {
    timer ??= setTimeout(() => {
      try {
        now()
      } catch {
        // If the disk accepts no write now, compaction is tried again after the next deletion.
      }
    }, afterMs)
  }
  return { later, now }
}

/** Returns the number that `PRAGMA <name>` answers. */
export function pragma(db: DatabaseSync, name: string): number {
  return Number(Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0])
}
