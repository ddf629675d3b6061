import { type Block, blockVersion } from '@sluice/event-log/block'
import type { EncodedEvent } from '@sluice/events/encode-event'

/** Encodes the events of many requests as few blocks: each block has one partition and one kind, dated or undated. */
export interface BlockEncoder {
  /**
   * Appends a request's events and returns their number of bytes. They are encoded at once, because strings that wait
   * for the log would survive many garbage collections.
   */
  add(events: readonly EncodedEvent[]): number
  /** Blocks of all appended events, which keep their order within partition and kind. */
  finish(): Block[]
}

/** Keeps a block well below Kafka's default message limit of 1 MiB. */
const blockBytesMax = 512 * 1024

/** Characters of text that are encoded at once, up to 384 KiB, unless a single line (some 100 KiB) is longer. */
const pieceLengthMax = 128 * 1024

interface Piece {
  payload: Buffer
  rows: number
}

/** Events without a client's `event_id` go to `defaultPartition`. */
export function blockEncoder({
  partitions,
  defaultPartition,
}: {
  partitions: number
  defaultPartition: number
}): BlockEncoder {
  /** Pieces by partition and kind; the key is twice the partition, plus one for undated rows. */
  const pieces = new Map<number, Piece[]>()

  function keyOf({ keyHash, undated }: EncodedEvent): number {
    return (keyHash === undefined ? defaultPartition : keyHash % partitions) * 2 + (undated ? 1 : 0)
  }

  function addPiece(key: number, text: string, rows: number): number {
    const piece = { payload: Buffer.from(text), rows }
    const before = pieces.get(key)
    if (before) before.push(piece)
    else pieces.set(key, [piece])
    return piece.payload.length
  }

  return {
    add: (events) => {
      const [only] = events
      if (only && events.length === 1) {
        return addPiece(keyOf(only), only.line, 1)
      }
      let bytes = 0
      const open = new Map<number, { text: string; rows: number }>()
      for (const event of events) {
        const { line } = event
        const key = keyOf(event)
        const buffer = open.get(key)
        if (buffer === undefined) open.set(key, { text: line, rows: 1 })
        else if (buffer.text.length + line.length > pieceLengthMax) {
          bytes += addPiece(key, buffer.text, buffer.rows)
          buffer.text = line
          buffer.rows = 1
        } else {
          buffer.text += line
          buffer.rows++
        }
      }
      for (const [key, { text, rows }] of open) bytes += addPiece(key, text, rows)
      return bytes
    },
    finish: () =>
      [...pieces].flatMap(([key, piecesOfKey]) => blocksOf(piecesOfKey, Math.floor(key / 2), key % 2 === 1)),
  }
}

function blocksOf(pieces: readonly Piece[], partition: number, undated: boolean): Block[] {
  const blocks: Block[] = []
  let open: Piece[] = []
  let bytes = 0
  const close = (): void => {
    const rows = open.reduce((sum, piece) => sum + piece.rows, 0)
    const [first] = open
    blocks.push({
      partition,
      headers: { v: blockVersion, rows, bytes, ...(undated ? { undated } : undefined) },
      payload: open.length === 1 && first ? first.payload : Buffer.concat(open.map(({ payload }) => payload)),
    })
    open = []
    bytes = 0
  }
  for (const piece of pieces) {
    if (open.length > 0 && bytes + piece.payload.length > blockBytesMax) close()
    open.push(piece)
    bytes += piece.payload.length
  }
  close()
  return blocks
}
