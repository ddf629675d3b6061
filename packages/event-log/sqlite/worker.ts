// The thread that owns the SQLite file: its calls are synchronous and wait for the disk.
import { randomUUID } from 'node:crypto'
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { diskSpace } from '@sluice/runtime/disk-space'
import { internalMessage } from '@sluice/runtime/errors'
import { makeFolder } from '@sluice/runtime/make-folder'
import { compaction, pragma } from './compact.ts'
import type {
  Commit,
  Opened,
  OpeningFailure,
  RequestMap,
  SqliteWorkerData,
  WorkerMessage,
  WorkerRequest,
} from './protocol.ts'

/** A block's row id is `partition * partitionStride + offset`: one B-tree, in the order in which blocks are read. */
const partitionStride = 2 ** 44
/** Raised when the tables change; an older or newer file is refused. */
const schemaVersion = 1
/** Maximum number of blocks that one step deletes, so that it does not delay a publish for long. */
const deleteBlocksMax = 256
const deleteBytesMax = 16 * 1024 * 1024

const schema = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
  CREATE TABLE blocks (id INTEGER PRIMARY KEY, appended_at INTEGER NOT NULL, headers TEXT NOT NULL, payload BLOB NOT NULL);
  CREATE TABLE positions (consumer_group TEXT, partition INTEGER, next_offset INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, partition)) WITHOUT ROWID;
`

type Handlers = {
  [Kind in keyof RequestMap]: (request: RequestMap[Kind]['request']) => RequestMap[Kind]['response']
}

interface Log {
  opened: Opened
  handlers: Handlers
  /** Deletes a limited number of blocks that every group has read; returns true when there may be more. */
  deleteReadBlocks: () => boolean
  compactLater: () => void
}

function open(data: SqliteWorkerData): Log {
  makeFolder(data.dir)
  const db = new DatabaseSync(join(data.dir, 'log.sqlite'), { timeout: 0 })
  try {
    return openTables(db, data)
  } catch (error) {
    db.close()
    throw error
  }
}

function openTables(db: DatabaseSync, data: SqliteWorkerData): Log {
  // Set before the first access: no second process can open the file, and the WAL index is kept in memory.
  db.exec('PRAGMA locking_mode=EXCLUSIVE')
  db.exec('PRAGMA page_size=8192')
  db.exec('PRAGMA journal_mode=WAL')
  db.exec('PRAGMA synchronous=FULL; PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1')
  // Compaction needs no folder for temporary files.
  db.exec('PRAGMA temp_store=MEMORY')
  // 32 MiB of WAL between checkpoints. Pages whose blocks are consumed in that time are written to the file at most
  // once.
  db.exec('PRAGMA wal_autocheckpoint=4096; PRAGMA cache_size=-16384')
  db.exec('BEGIN EXCLUSIVE')
  const isNew = db.prepare(`SELECT 1 FROM sqlite_master WHERE name = 'meta'`).get() === undefined
  if (isNew) {
    db.exec(schema)
    const insert = db.prepare('INSERT INTO meta (name, value) VALUES (?, ?)')
    insert.run('version', schemaVersion)
    insert.run('id', randomUUID())
    insert.run('partitions', data.partitions)
  }
  const meta = new Map(
    db
      .prepare('SELECT name, value FROM meta')
      .all()
      .map((row) => [row.name, row.value]),
  )
  db.exec('COMMIT')
  if (meta.get('version') !== schemaVersion) {
    throw new Error(`its format is version ${String(meta.get('version'))}, this program reads ${schemaVersion}`)
  }
  if (data.retentionMs !== undefined) {
    // Overwrites the deleted bytes, because a log of dead letters may be too large to be compacted.
    db.exec('PRAGMA secure_delete=ON')
    try {
      db.prepare('DELETE FROM blocks WHERE appended_at < ?').run(Date.now() - data.retentionMs)
    } catch {
      // If the disk accepts no write now, they are deleted at the next start.
    }
    db.exec('PRAGMA secure_delete=OFF')
  }
  if (data.fileBytesMax !== undefined) {
    db.exec(`PRAGMA max_page_count=${Math.max(1, Math.floor(data.fileBytesMax / pragma(db, 'page_size')))}`)
  }
  return createLog(db, data, { id: String(meta.get('id')), partitions: Number(meta.get('partitions')) })
}

/** Loads the committed offsets by group and partition. */
function loadGroups(db: DatabaseSync, partitions: number): Map<string, number[]> {
  const groups = new Map<string, number[]>()
  for (const row of db.prepare('SELECT consumer_group, partition, next_offset FROM positions').all()) {
    const group = String(row.consumer_group)
    const committedOffsets = groups.get(group) ?? Array.from({ length: partitions }, () => 0)
    committedOffsets[Number(row.partition)] = Number(row.next_offset)
    groups.set(group, committedOffsets)
  }
  return groups
}

/** Loads for each partition the offset of the oldest block and the offset after the newest one. */
function loadBounds(
  db: DatabaseSync,
  partitions: number,
  groups: ReadonlyMap<string, readonly number[]>,
): { starts: number[]; ends: number[] } {
  const starts: number[] = []
  const ends: number[] = []
  for (let partition = 0; partition < partitions; partition++) {
    const low = partition * partitionStride
    const row = db
      .prepare('SELECT min(id) AS low, max(id) AS high FROM blocks WHERE id >= ? AND id < ?')
      .get(low, low + partitionStride)
    // Blocks are only deleted up to a committed offset, so an empty partition continues at that offset.
    const end = Math.max(
      row?.high == null ? 0 : Number(row.high) - low + 1,
      ...[...groups.values()].map((committedOffsets) => committedOffsets[partition] ?? 0),
    )
    ends.push(end)
    starts.push(row?.low == null ? end : Number(row.low) - low)
  }
  return { starts, ends }
}

function createLog(db: DatabaseSync, data: SqliteWorkerData, { id, partitions }: Omit<Opened, 'ends'>): Log {
  const insertBlock = db.prepare('INSERT INTO blocks (id, appended_at, headers, payload) VALUES (?, ?, ?, ?)')
  const selectBlocks = db.prepare(
    'SELECT id, appended_at, headers, payload FROM blocks WHERE id >= ? AND id < ? ORDER BY id',
  )
  const selectSizes = db.prepare(
    `SELECT id, length(payload) AS bytes FROM blocks WHERE id >= ? AND id < ? ORDER BY id LIMIT ${deleteBlocksMax}`,
  )
  const selectSince = db.prepare(
    'SELECT id FROM blocks WHERE id >= ? AND id < ? AND appended_at >= ? ORDER BY id LIMIT 1',
  )
  const deleteBlocks = db.prepare('DELETE FROM blocks WHERE id >= ? AND id < ?')
  // A committed offset never decreases. If a commit arrives after the partition has moved, its blocks were processed
  // nevertheless.
  const storeCommittedOffset = db.prepare(
    `INSERT INTO positions (consumer_group, partition, next_offset) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET next_offset = max(next_offset, excluded.next_offset)`,
  )

  const deleteCommittedOffsets = db.prepare('DELETE FROM positions WHERE consumer_group = ?')

  const groups = loadGroups(db, partitions)
  const { starts, ends } = loadBounds(db, partitions, groups)

  const transaction = (work: () => void) => {
    db.exec('BEGIN IMMEDIATE')
    try {
      work()
      db.exec('COMMIT')
    } catch (error) {
      // SQLite has rolled back already after most errors of the disk.
      if (db.isTransaction) db.exec('ROLLBACK')
      throw error
    }
  }

  const storeCommittedOffsets = (commits: readonly Commit[]) => {
    for (const { group, partition, nextOffset } of commits) storeCommittedOffset.run(group, partition, nextOffset)
  }

  const rememberCommittedOffsets = (commits: readonly Commit[]) => {
    for (const { group, partition, nextOffset } of commits) {
      const committedOffsets = groups.get(group)
      if (committedOffsets !== undefined)
        committedOffsets[partition] = Math.max(committedOffsets[partition] ?? 0, nextOffset)
    }
  }

  const firstUnreadOffset = (partition: number) =>
    Math.min(...[...groups.values()].map((committedOffsets) => committedOffsets[partition] ?? 0))

  const deleteReadBlocks = () => {
    if (groups.size === 0) return false
    const partition = starts.findIndex((start, index) => start < firstUnreadOffset(index))
    if (partition === -1) return false
    const low = partition * partitionStride
    const needed = firstUnreadOffset(partition)
    let next = needed
    let bytes = 0
    let count = 0
    for (const row of selectSizes.iterate(low + (starts[partition] ?? 0), low + needed)) {
      bytes += Number(row.bytes)
      count++
      if (count === deleteBlocksMax || bytes >= deleteBytesMax) {
        next = Number(row.id) - low + 1
        break
      }
    }
    // The deletion needs no fsync: if a crash undoes it, it is repeated.
    db.exec('PRAGMA synchronous=NORMAL')
    try {
      transaction(() => deleteBlocks.run(low, low + next))
    } finally {
      db.exec('PRAGMA synchronous=FULL')
    }
    starts[partition] = next
    return true
  }

  const append = ({ appends, appendedAt, data: payloads }: RequestMap['write']['request'], next: number[]) => {
    let position = 0
    for (const { partition, headers, bytes } of appends) {
      const offset = next[partition] ?? 0
      insertBlock.run(
        partition * partitionStride + offset,
        appendedAt,
        headers,
        new Uint8Array(payloads, position, bytes),
      )
      next[partition] = offset + 1
      position += bytes
    }
  }

  const pageBytes = pragma(db, 'page_size')
  const compacting = compaction(db, data.compactAfterMs)

  /** Why no block may be appended. A full disk would accept neither commits nor the checkpoint that frees space. */
  const diskSpaceError = (): string | undefined => {
    const freeBytes = diskSpace(statfsSync(data.dir)).freeBytes + pragma(db, 'freelist_count') * pageBytes
    if (freeBytes >= data.freeBytesMin) return undefined
    return `the disk and the file have ${freeBytes} bytes left, ${data.freeBytesMin} are kept free`
  }

  const handlers: Handlers = {
    write(request) {
      let appendError = request.appends.length > 0 ? diskSpaceError() : undefined
      if (appendError === undefined) {
        const next = [...ends]
        try {
          transaction(() => {
            storeCommittedOffsets(request.commits)
            append(request, next)
          })
          for (const [partition, end] of next.entries()) ends[partition] = end
        } catch (error) {
          if (request.appends.length === 0) throw error
          appendError = internalMessage(error)
        }
      }
      if (appendError !== undefined && request.commits.length > 0) {
        // Offsets must still advance, because that frees space. After the checkpoint, the WAL is overwritten from its
        // start.
        db.exec('PRAGMA wal_checkpoint(PASSIVE)')
        transaction(() => storeCommittedOffsets(request.commits))
      }
      rememberCommittedOffsets(request.commits)
      return { ends: [...ends], appendError }
    },
    read({ partition, from, bytesMax }) {
      const low = partition * partitionStride
      const blocks: RequestMap['read']['response']['blocks'] = []
      let bytes = 0
      for (const row of selectBlocks.iterate(low + from, low + partitionStride)) {
        const payload = row.payload as Uint8Array<ArrayBuffer>
        blocks.push({
          offset: Number(row.id) - low,
          appendedAt: Number(row.appended_at),
          headers: String(row.headers),
          payload,
        })
        bytes += payload.byteLength
        if (bytes >= bytesMax) break
      }
      return { blocks }
    },
    committedOffsets({ group }) {
      let committedOffsets = groups.get(group)
      if (committedOffsets === undefined) {
        // Stored at once, so that no block is deleted before this group has read it.
        committedOffsets = [...starts]
        const commits = committedOffsets.map((nextOffset, partition) => ({ group, partition, nextOffset }))
        transaction(() => storeCommittedOffsets(commits))
        groups.set(group, committedOffsets)
      }
      // The retention has deleted the blocks below the first one, and nobody waits for them.
      return { committedOffsets: committedOffsets.map((next, partition) => Math.max(next, starts[partition] ?? 0)) }
    },
    offsetsForTime({ time }) {
      const offsets = ends.map((end, partition) => {
        const low = partition * partitionStride
        const row = selectSince.get(low, low + partitionStride, time)
        return row === undefined ? end : Number(row.id) - low
      })
      return { offsets }
    },
    replaceGroup({ from, to }) {
      const committedOffsets = groups.get(from)
      if (committedOffsets === undefined) return {}
      // `from` is removed in any case, because blocks are kept until every known group has read them.
      const commits = groups.has(to)
        ? []
        : committedOffsets.map((nextOffset, partition) => ({ group: to, partition, nextOffset }))
      transaction(() => {
        storeCommittedOffsets(commits)
        deleteCommittedOffsets.run(from)
      })
      groups.delete(from)
      if (commits.length > 0) groups.set(to, committedOffsets)
      return {}
    },
    keepOnlyGroup({ group }) {
      for (const other of [...groups.keys()].filter((each) => each !== group)) {
        deleteCommittedOffsets.run(other)
        groups.delete(other)
      }
      return {}
    },
    ping() {
      db.prepare('SELECT 1').get()
      return { hasSpace: diskSpaceError() === undefined }
    },
    close() {
      compacting.now()
      db.close()
      return {}
    },
  }
  return { opened: { id, partitions, ends: [...ends] }, handlers, deleteReadBlocks, compactLater: compacting.later }
}

/** Buffers that are transferred to the other thread instead of being copied. */
function payloadsOf(response: RequestMap[keyof RequestMap]['response']): ArrayBuffer[] {
  return 'blocks' in response ? response.blocks.map(({ payload }) => payload.buffer) : []
}

function reasonOf(error: unknown): OpeningFailure['reason'] {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  // SQLITE_BUSY: another connection has locked the file.
  if (code === 5) return 'locked'
  // The codes of SQLite for a malformed file, and for one that is no database.
  return code === 11 || code === 26 ? 'damaged' : 'other'
}

function serve(port: NonNullable<typeof parentPort>): void {
  const post = (message: WorkerMessage, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)
  let log: Log
  try {
    log = open(workerData as SqliteWorkerData)
  } catch (error) {
    post({ kind: 'failed', error: internalMessage(error), reason: reasonOf(error) })
    port.close()
    return
  }
  post({ kind: 'opened', opened: log.opened })

  let deleting: NodeJS.Immediate | undefined
  const deleteLater = () => {
    // One step per turn of the event loop, so that requests that have arrived are handled first.
    deleting ??= setImmediate(() => {
      deleting = undefined
      try {
        if (log.deleteReadBlocks()) deleteLater()
        else log.compactLater()
      } catch {
        // If the disk accepts no write now, the deletion is tried again after the next commit.
      }
    })
  }

  deleteLater()
  port.on('message', (request: WorkerRequest) => {
    try {
      const response = log.handlers[request.kind](request as never)
      const transfer = request.kind === 'read' ? payloadsOf(response) : []
      post({ kind: 'answer', call: request.call, response }, transfer)
      if (request.kind === 'close') {
        clearImmediate(deleting)
        port.close()
      } else if (request.kind === 'write' && request.commits.length > 0) deleteLater()
    } catch (error) {
      post({ kind: 'refusal', call: request.call, error: internalMessage(error) })
    }
  })
}

if (parentPort !== null) serve(parentPort)
