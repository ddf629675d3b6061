import { unavailable } from '@sluice/runtime/errors'
import { type Block, payloadBytes } from '../block.ts'
import type { SqliteEngine } from './engine.ts'
import type { Append, Commit } from './protocol.ts'

/** Maximum payload bytes of one transaction. It bounds the copy, the WAL and the wait for the disk. */
const transactionBytesMax = 32 * 1024 * 1024

/** Writes publishes and commits to the disk. */
export interface SqliteWrites {
  /**
   * Resolves when the blocks are fsynced. Throws AppError `unavailable` when that fails or takes longer than
   * `timeoutMs`.
   */
  publish(blocks: readonly Block[], timeoutMs: number): Promise<void>
  commit(commit: Commit): Promise<void>
  /** Resolves when no publish or commit is pending. */
  idle(): Promise<void>
}

interface PendingPublish {
  blocks: readonly Block[]
  resolve: (value: undefined) => void
  reject: (error: Error) => void
}

interface PendingCommit {
  commit: Commit
  resolve: (value: undefined) => void
  reject: (error: Error) => void
}

/**
 * Group commit: publishes and commits that arrive while a transaction waits for the disk are written in the next one.
 * `engine` restarts the thread if it has ended. `now` gives the time of the appends in Unix ms. `onWritten` gets the
 * new ends after each transaction.
 */
export function createSqliteWrites(
  name: string,
  engine: () => Promise<SqliteEngine>,
  now: () => number,
  onWritten: (ends: readonly number[]) => void,
): SqliteWrites {
  let publishes: PendingPublish[] = []
  let commits: PendingCommit[] = []
  let writing: Promise<void> | undefined

  const takePublishes = () => {
    let bytes = 0
    const end = publishes.findIndex(({ blocks }, index) => {
      bytes += payloadBytes(blocks)
      return index > 0 && bytes > transactionBytesMax
    })
    const taken = end === -1 ? publishes : publishes.slice(0, end)
    publishes = end === -1 ? [] : publishes.slice(end)
    return taken
  }

  async function writeOnce(): Promise<void> {
    const takenPublishes = takePublishes()
    const takenCommits = commits
    commits = []
    const { appends, data } = packPayloads(takenPublishes.flatMap(({ blocks }) => blocks))
    try {
      const request = { appends, appendedAt: now(), data, commits: takenCommits.map(({ commit }) => commit) }
      const { ends, appendError } = await (await engine()).call('write', request, [data])
      onWritten(ends)
      for (const commit of takenCommits) commit.resolve(undefined)
      for (const publish of takenPublishes) {
        if (appendError === undefined) publish.resolve(undefined)
        else publish.reject(unavailable(`${name} did not accept the blocks: ${appendError}`))
      }
    } catch (error) {
      const failure = unavailable(
        `${name} can't be written: ${error instanceof Error ? error.message : 'unknown'}`,
        error,
      )
      for (const { reject } of [...takenCommits, ...takenPublishes]) reject(failure)
    }
  }

  async function writeAll(): Promise<void> {
    while (publishes.length > 0 || commits.length > 0) await writeOnce()
    writing = undefined
  }

  const flush = () => {
    writing ??= writeAll()
  }

  return {
    async publish(blocks, timeoutMs) {
      if (blocks.length === 0) return
      const { promise, resolve, reject } = Promise.withResolvers<undefined>()
      const publish: PendingPublish = { blocks, resolve, reject }
      const timer = setTimeout(() => {
        publishes = publishes.filter((waiting) => waiting !== publish)
        reject(unavailable(`${name} did not accept the blocks within ${timeoutMs} ms`))
      }, timeoutMs)
      publishes.push(publish)
      flush()
      try {
        await promise
      } finally {
        clearTimeout(timer)
      }
    },
    async commit(commit) {
      const { promise, resolve, reject } = Promise.withResolvers<undefined>()
      commits.push({ commit, resolve, reject })
      flush()
      await promise
    },
    async idle() {
      await writing
    },
  }
}

/**
 * One buffer with all payloads, which is transferred to the thread. It is a copy, because a transferred buffer is
 * detached and the caller may have to retry with it. The copy takes far less time than the fsync.
 */
function packPayloads(blocks: readonly Block[]): { appends: Append[]; data: ArrayBuffer } {
  const bytes = new Uint8Array(payloadBytes(blocks))
  const appends: Append[] = []
  let position = 0
  for (const { partition, headers, payload } of blocks) {
    bytes.set(payload, position)
    position += payload.length
    appends.push({ partition, headers: JSON.stringify(headers), bytes: payload.length })
  }
  return { appends, data: bytes.buffer }
}
