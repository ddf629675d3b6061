import { type Block, blockVersion } from '@sluice/contracts/block'

/** One event on its way to the log: its row as a JSON line, and what decides its partition and block. */
export interface EncodedEvent {
  /** JSON of the row with its `\n`. */
  line: string
  /** Hash of (site_id, event_id) when the client sent the id: copies must meet in one partition. */
  keyHash: number | undefined
  undated: boolean
}

/** A block stays well below Kafka's default message limit of 1 MiB; one event is at most some 100 KiB as a row. */
const blockBytesMax = 512 * 1024

/**
 * Packs events into as few blocks as partitions and kinds allow. Events without a client's id go to `freePartition`.
 */
export function encodeBlocks(
  events: readonly EncodedEvent[],
  { partitions, freePartition }: { partitions: number; freePartition: number },
): Block[] {
  const open = new Map<number, { lines: string[]; bytes: number }>()
  const blocks: Block[] = []

  const close = (key: number, lines: readonly string[]): void => {
    const payload = Buffer.from(lines.join(''))
    const undated = key % 2 === 1
    blocks.push({
      partition: Math.floor(key / 2),
      headers: { v: blockVersion, rows: lines.length, bytes: payload.length, ...(undated ? { undated } : undefined) },
      payload,
    })
  }

  for (const { line, keyHash, undated } of events) {
    const partition = keyHash === undefined ? freePartition : keyHash % partitions
    const key = partition * 2 + (undated ? 1 : 0)
    let block = open.get(key)
    const bytes = Buffer.byteLength(line)
    if (block && block.bytes + bytes > blockBytesMax) {
      close(key, block.lines)
      block = undefined
    }
    if (!block) {
      block = { lines: [], bytes: 0 }
      open.set(key, block)
    }
    block.lines.push(line)
    block.bytes += bytes
  }
  for (const [key, { lines }] of open) close(key, lines)
  return blocks
}
