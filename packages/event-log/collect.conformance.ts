import { randomBytes } from 'node:crypto'
import type { Block, BlockHeaders } from '@sluice/contracts/block'
import type { Claim, ConsumerOptions, EventLog, LogBatch, LogConsumer } from './log.ts'
import type { EventLogLogger } from './logger.ts'

// What the conformance suite and the programs that it kills have in common.

const nothing = () => undefined
/** A logger for tests that don't listen. */
export const silent: EventLogLogger = { debug: nothing, info: nothing, warn: nothing, error: nothing }

/** Resolves when `condition` holds; fails with what it was waiting for. Polls, so that nothing depends on the adapter. */
export async function until(what: string, condition: () => boolean, deadlineMs = 20_000): Promise<void> {
  const end = performance.now() + deadlineMs
  while (!condition()) {
    if (performance.now() > end) throw new Error(`Waited ${deadlineMs} ms in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** A block whose payload is its name, then as many random bytes as it wants to `bytes`: they don't compress. */
export function block(partition: number, name: string, headers: Partial<BlockHeaders> = {}, bytes = 0): Block {
  const line = Buffer.from(`${name}\n`)
  const payload = Buffer.concat([line, randomBytes(Math.max(0, bytes - line.length))])
  return { partition, headers: { v: 1, rows: 1, bytes: payload.length, ...headers }, payload }
}

export function nameOf({ payload }: Block): string {
  return payload.subarray(0, payload.indexOf('\n')).toString()
}

/** One block a batch and no waiting, so that each test says which limit it means. */
export const eagerly = { maxBatchBytes: 1024 * 1024, maxBatchRows: 1000, lingerMs: 0 }

/** A member that writes down what it got. */
export interface Collector {
  consumer: LogConsumer
  running: Promise<void>
  claims: Claim[]
  batches: LogBatch[]
  /** Names of the blocks in the order in which they were handed over. */
  names: string[]
  /** Names of the blocks on which `work` was done; a commit that was refused may have been stored all the same. */
  worked: string[]
  /** Names of the blocks whose commit was confirmed. */
  committed: string[]
  /** Claims that are neither lost nor over. */
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
  // The test that cares awaits `running` itself.
  running.catch(() => undefined)
  const held = () =>
    claims
      .filter((claim) => !over.has(claim) && !claim.lost.aborted)
      .map(({ partition }) => partition)
      .sort((a, b) => a - b)
  return { consumer, running, claims, batches, names, worked, committed, held }
}
