import { type Block, blockVersion } from '@sluice/event-log/block'
import { type BlockAtOffset, blocksWithOffsets, countLines } from '@sluice/event-log/block-lines'
import { type DeadLetterCause, toDeadLetter } from '@sluice/event-log/dead-letters'
import type { LogBatch } from '@sluice/event-log/log'

/**
 * Blocks of up to this many later versions wait for a newer writer; gateways are never further ahead of writers. A
 * higher number is the header `v` of a foreign record, which no newer writer would read either.
 */
const versionsAhead = 9

/** The blocks of a batch, divided into readable and unreadable ones. */
export interface ClassifiedBlocks {
  /** The blocks of rows. */
  readable: BlockAtOffset[]
  /**
   * Dead letters of the records that are not blocks of Sluice. Each record is one letter, because its rows are unknown.
   */
  dead: Block[]
}

/**
 * Separates the readable blocks of a batch from records that are not blocks, and turns these records into dead letters.
 * Throws an Error for a block of a later version, which needs a newer writer.
 */
export function classifyBlocks(batch: LogBatch): ClassifiedBlocks {
  const classified: ClassifiedBlocks = { readable: [], dead: [] }
  for (const block of blocksWithOffsets(batch)) {
    const defect = findDefect(block)
    if (defect) classified.dead.push(toDeadLetter(block, defect))
    else classified.readable.push(block)
  }
  return classified
}

function findDefect({ headers, payload }: BlockAtOffset): DeadLetterCause | undefined {
  const version: number = headers.v
  if (version > blockVersion && version <= blockVersion + versionsAhead) {
    throw new Error(`a block of version ${version}, this writer knows ${blockVersion}: upgrade the writer`)
  }
  if (version !== blockVersion) return { reason: 'unreadable', text: 'the record lacks the headers of a block' }
  if (countLines(payload) === headers.rows && payload.at(-1) === 0x0a) return undefined
  return {
    reason: 'row_count',
    text: `the block has ${countLines(payload)} whole lines, its headers say ${headers.rows}`,
  }
}
