import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Block, BlockHeaders } from '../block.ts'
import type { Claim, ConsumerOptions, EventLog, LogBatch, LogConsumer } from '../log.ts'

// Shared by the conformance suite and the processes that it kills.

/** A block whose payload is its name and as many random bytes, which don't compress, as `bytes` needs. */
export function block(partition: number, name: string, headers: Partial<BlockHeaders> = {}, bytes = 0): Block {
  const line = Buffer.from(`${name}\n`)
  const payload = Buffer.concat([line, randomBytes(Math.max(0, bytes - line.length))])
  return { partition, headers: { v: 1, rows: 1, bytes: payload.length, ...headers }, payload }
}

export function nameOf({ payload }: Block): string {
  return payload.subarray(0, payload.indexOf('\n')).toString()
}

/** Large limits and no linger, so that a test sets only the limit that it checks. */
export const eagerly = { batchBytesMax: 1024 * 1024, batchRowsMax: 1000, lingerMs: 0 }

/** A member that records its batches. */
export interface Collector {
  consumer: LogConsumer
  running: Promise<void>
  claims: Claim[]
  batches: LogBatch[]
  /** Names of the blocks that the handler got, in order. */
  names: string[]
  /** Names of the blocks that `work` has processed; a refused commit may have been stored all the same. */
  worked: string[]
  /** Names of the blocks whose commit was confirmed. */
  committed: string[]
  /** Partitions of the claims that are neither lost nor ended. */
  held: () => number[]
}

/** Runs a consumer that commits each batch, after `work` if given. */
export function collect(
  log: EventLog,
  group: string,
  options: Partial<ConsumerOptions> = {},
  work: (batch: LogBatch, claim: Claim) => Promise<void> = () => Promise.resolve(),
): Collector {
  const claims: Claim[] = []
  const batches: LogBatch[] = []
  const names: string[] = []
  const worked: string[] = []
  const committed: string[] = []
  const over = new Set<Claim>()
  const consumer = log.consumer({
    group,
    ...eagerly,
    async onClaim(claim) {
      claims.push(claim)
      try {
        for await (const batch of claim.batches()) {
          batches.push(batch)
          names.push(...batch.blocks.map(nameOf))
          await work(batch, claim)
          worked.push(...batch.blocks.map(nameOf))
          await claim.commit(batch)
          committed.push(...batch.blocks.map(nameOf))
        }
      } finally {
        over.add(claim)
      }
    },
    ...options,
  })
  const running = consumer.run()
  // Tests of this rejection await `running` themselves.
  running.catch(() => undefined)
  const held = () =>
    claims
      .filter((claim) => !over.has(claim) && !claim.lost.aborted)
      .map(({ partition }) => partition)
      .sort((a, b) => a - b)
  return { consumer, running, claims, batches, names, worked, committed, held }
}

/** Bytes of buffers that are still referenced. */
export function bufferBytes(): number {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  collectGarbage()
  // `arrayBuffers` would not count buffers that came from another thread.
  return process.memoryUsage().external
}
