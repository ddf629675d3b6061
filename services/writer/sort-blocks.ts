import { type Block, blockVersion } from '@sluice/contracts/block'
import type { LogBatch } from '@sluice/event-log/log'
import { countLines, deadLetter, type Fault, type LoggedBlock, loggedBlocks } from './dead-letters.ts'

/**
 * So many versions to come are taken for ours and waited on: more than writers are ever behind their gateways. Beyond it
 * somebody else's record has a header `v` of its own, and no newer writer would ever read it.
 */
const versionsAhead = 9

export interface SortedBlocks {
  dated: LoggedBlock[]
  undated: LoggedBlock[]
  /** What is no block of ours, whole: whatever it holds, it can't be told apart into rows. */
  dead: Block[]
}

/**
 * Sorts a batch into what its two statements take and what none does. Throws when a block is of one of the next
 * versions: a newer writer knows it.
 */
export function sortBlocks(batch: LogBatch): SortedBlocks {
  const sorted: SortedBlocks = { dated: [], undated: [], dead: [] }
  for (const block of loggedBlocks(batch)) {
    const fault = faultOf(block)
    if (fault) sorted.dead.push(deadLetter(block, fault))
    else if (block.headers.undated) sorted.undated.push(block)
    else sorted.dated.push(block)
  }
  return sorted
}

function faultOf({ headers, payload }: LoggedBlock): Fault | undefined {
  const version: number = headers.v
  if (version > blockVersion && version <= blockVersion + versionsAhead) {
    throw new Error(`a block of version ${version}, this writer knows ${blockVersion}: upgrade the writer`)
  }
  if (version !== blockVersion) return { reason: 'unreadable', text: 'the record has not the headers of a block' }
  if (countLines(payload) === headers.rows && payload.at(-1) === 0x0a) return undefined
  return {
    reason: 'row_count',
    text: `the block has ${countLines(payload)} whole lines, its headers say ${headers.rows}`,
  }
}
