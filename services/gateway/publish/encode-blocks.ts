import { type Block, blockVersion } from '@sluice/contracts/block'

/** One event on its way to the log: its row as a JSON line, and what decides its partition and block. */
export interface EncodedEvent {
  /** JSON of the row with its `\n`. */
  line: string
  /** Hash of (site_id, event_id) when the client sent the id: copies must meet in one partition. */
  keyHash: number | undefined
  undated: boolean
}

/** Gathers the events of many requests into as few blocks as partitions and kinds allow. */
export interface BlockEncoder {
  /**
   * Takes a request's events as bytes, and returns how many: strings that wait for the log would outlive many garbage
   * collections.
   */
  add(events: readonly EncodedEvent[]): number
  /** The blocks of all events so far, in their order by partition and kind. */
  finish(): Block[]
}

/** A block stays well below Kafka's default message limit of 1 MiB. */
const blockBytesMax = 512 * 1024
/** Lines are turned into bytes in pieces of at most this many characters, 384 KiB, or one line, some 100 KiB. */
const pieceLengthMax = 128 * 1024

interface Piece {
  payload: Buffer
  rows: number
}

/** Events without a client's id go to `freePartition`. */
export function blockEncoder({
  partitions,
  freePartition,
}: {
  partitions: number
  freePartition: number
}): BlockEncoder {
  /** By partition and kind: twice the partition, one more for undated rows. */
  const pieces = new Map<number, Piece[]>()

  function keyOf({ keyHash, undated }: EncodedEvent): number {
    return (keyHash === undefined ? freePartition : keyHash % partitions) * 2 + (undated ? 1 : 0)
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
        const pile = open.get(key)
        if (pile === undefined) open.set(key, { text: line, rows: 1 })
        else if (pile.text.length + line.length > pieceLengthMax) {
          bytes += addPiece(key, pile.text, pile.rows)
          pile.text = line
          pile.rows = 1
        } else {
          pile.text += line
          pile.rows++
        }
      }
      for (const [key, { text, rows }] of open) bytes += addPiece(key, text, rows)
      return bytes
    },
    finish: () => [...pieces].flatMap(([key, ofKey]) => blocksOf(ofKey, Math.floor(key / 2), key % 2 === 1)),
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
