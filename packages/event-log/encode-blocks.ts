import { sum } from '@sluice/runtime/sum'
import { type Block, blockVersion } from './block.ts'

/** A row for the log, with the values that decide its partition and block: an `EncodedEvent` of packages/events. */
export interface LogRow {
  /** The row as a JSON line, with `\n` at the end. */
  line: string
  /**
   * Hash of (site_id, event_id), because copies of an event must be in one partition. Undefined: the event may be in
   * any.
   */
  keyHash: number | undefined
  undated: boolean
}

/** Encodes the events of many requests as few blocks: each block has one partition and one kind, dated or undated. */
export interface BlockEncoder {
  /**
   * Adds a request's events. They are encoded at once: strings that waited for the log would survive many garbage
   * collections.
   */
  add(events: readonly LogRow[]): AddedEvents
  /** Blocks of all added events. The order within a partition and kind is kept. */
  finish(): Block[]
}

export interface AddedEvents {
  bytes: number
  /** The partitions of the events; a partition may appear twice. */
  partitions: readonly number[]
}

/** Keeps a block well below Kafka's default message limit of 1 MiB. */
const blockBytesMax = 512 * 1024

/** UTF-8 bytes of a UTF-16 unit, at most. */
const bytesPerUnitMax = 3

/**
 * The bytes of a piece while it grows. No other code runs on the event loop at that time. Lines are written one by one:
 * in a single string of all lines, one character beyond Latin-1 would double the memory, and encoding would take twice
 * as long.
 */
const scratch = Buffer.allocUnsafeSlow(256 * 1024)

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
  /** Pieces by partition and kind. The key is twice the partition, plus one for undated rows. */
  const pieces = new Map<number, Piece[]>()

  function keyOf({ keyHash, undated }: LogRow): number {
    return (keyHash === undefined ? defaultPartition : keyHash % partitions) * 2 + (undated ? 1 : 0)
  }

  function addPiece(key: number, payload: Buffer, rows: number): void {
    const before = pieces.get(key)
    if (before) before.push({ payload, rows })
    else pieces.set(key, [{ payload, rows }])
  }

  /** Returns the number of bytes. */
  function addLines(key: number, lines: readonly string[]): number {
    let bytes = 0
    let length = 0
    let rows = 0
    const close = (): void => {
      if (rows > 0) addPiece(key, Buffer.from(scratch.subarray(0, length)), rows)
      bytes += length
      length = 0
      rows = 0
    }
    for (const line of lines) {
      const lengthMax = bytesPerUnitMax * line.length
      if (length + lengthMax > scratch.length) close()
      if (lengthMax > scratch.length) {
        const payload = Buffer.from(line)
        addPiece(key, payload, 1)
        bytes += payload.length
      } else {
        length += scratch.write(line, length)
        rows++
      }
    }
    close()
    return bytes
  }

  return {
    add: (events) => {
      const [only] = events
      if (only && events.length === 1) {
        const payload = Buffer.from(only.line)
        const key = keyOf(only)
        addPiece(key, payload, 1)
        return { bytes: payload.length, partitions: [partitionOf(key)] }
      }
      const linesByKey = new Map<number, string[]>()
      for (const event of events) {
        const key = keyOf(event)
        const lines = linesByKey.get(key)
        if (lines) lines.push(event.line)
        else linesByKey.set(key, [event.line])
      }
      let bytes = 0
      for (const [key, lines] of linesByKey) bytes += addLines(key, lines)
      return { bytes, partitions: Array.from(linesByKey.keys(), partitionOf) }
    },
    finish: () => [...pieces].flatMap(([key, piecesOfKey]) => blocksOf(piecesOfKey, partitionOf(key), key % 2 === 1)),
  }
}

function partitionOf(key: number): number {
  return Math.floor(key / 2)
}

function blocksOf(pieces: readonly Piece[], partition: number, undated: boolean): Block[] {
  const blocks: Block[] = []
  let open: Piece[] = []
  let bytes = 0
  const close = (): void => {
    const rows = sum(open.map((piece) => piece.rows))
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
