import type { Block } from '@sluice/contracts/block'
import { unavailable } from '@sluice/contracts/errors'
import type { Append, Commit } from './sqlite-protocol.ts'
import type { SqliteEngine } from './sqlite-engine.ts'

/** Payload bytes of one transaction: bounds the copy, the WAL and how long others wait for the disk. */
const transactionBytesMax = 32 * 1024 * 1024

/** Publishes and commits on their way to the disk. */
export interface SqliteWrites {
  /** Resolves when the blocks are fsynced; 503 when they could not be, or not within `timeoutMs`. */
  publish(blocks: readonly Block[], timeoutMs: number): Promise<void>
  commit(commit: Commit): Promise<void>
  /** Resolves when nothing waits any more. */
  idle(): Promise<void>
}

interface Publish {
  blocks: readonly Block[]
  resolve: (value: undefined) => void
  reject: (error: Error) => void
}

interface WaitingCommit {
  commit: Commit
  resolve: (value: undefined) => void
  reject: (error: Error) => void
}

/**
 * Group commit: while one transaction waits for the disk, whatever else comes in gathers for the next.
 * `engine` starts the thread anew if it ended; `onWritten` hears the new ends after each transaction.
 */
export function createSqliteWrites(
  name: string,
  engine: () => Promise<SqliteEngine>,
  onWritten: (ends: readonly number[]) => void,
): SqliteWrites {
  let publishes: Publish[] = []
  let commits: WaitingCommit[] = []
  let writing: Promise<void> | undefined

  const takePublishes = () => {
    let bytes = 0
    const end = publishes.findIndex(({ blocks }, index) => {
      bytes += bytesOf(blocks)
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
    const { appends, data } = pack(takenPublishes.flatMap(({ blocks }) => blocks))
    try {
      const request = { appends, data, commits: takenCommits.map(({ commit }) => commit) }
      const { ends, appendError } = await (await engine()).call('write', request, [data])
      onWritten(ends)
      for (const commit of takenCommits) commit.resolve(undefined)
      for (const publish of takenPublishes) {
        if (appendError === undefined) publish.resolve(undefined)
        else publish.reject(unavailable(`${name} took no blocks: ${appendError}`))
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
      const publish: Publish = { blocks, resolve, reject }
      const timer = setTimeout(() => {
        publishes = publishes.filter((waiting) => waiting !== publish)
        reject(unavailable(`${name} did not take the blocks within ${timeoutMs} ms`))
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

function bytesOf(blocks: readonly Block[]): number {
  return blocks.reduce((sum, block) => sum + block.payload.length, 0)
}

/**
 * One buffer for all payloads, which moves to the thread. A copy, because a transferred buffer is gone for the caller,
 * who may have to repeat the call; at memory speed that is nothing beside the fsync.
 */
function pack(blocks: readonly Block[]): { appends: Append[]; data: ArrayBuffer } {
  const bytes = new Uint8Array(bytesOf(blocks))
  const appends: Append[] = []
  let position = 0
  for (const { partition, headers, payload } of blocks) {
    bytes.set(payload, position)
    position += payload.length
    appends.push({ partition, headers: JSON.stringify(headers), bytes: payload.length })
  }
  return { appends, data: bytes.buffer }
}
