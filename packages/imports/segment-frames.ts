import type { FileLayout, FileRecord } from './file-record.ts'

/** A record with its number in the file, from 1. */
export type SegmentRecord = FileRecord & { number: number }

/** The header of a segment. With it, a segment can be read without the rest of the file. */
export interface SegmentHeader {
  v: typeof segmentVersion
  layout: FileLayout
  /** Number of the segment's first record. */
  firstRecord: number
}

/** Version of the layout of segments. A reader refuses a version that it does not know. */
export const segmentVersion = 1

/**
 * A segment is a sequence of frames, which is compressed with gzip. A frame consists of its kind (1 byte), the line in
 * the file (6 bytes), the length of its content (4 bytes), both big-endian, and the content.
 */
const headBytes = 11
const lineAt = 1
const lineBytes = 6
const lengthAt = 7

const kinds = {
  /** JSON of the `SegmentHeader`; the first frame. */
  header: 0,
  /** Bytes of a record. */
  record: 1,
  /** The message of a record that can't be read. */
  failed: 2,
} as const

/** Number of bytes that a record's frame takes. */
export function frameBytes({ bytes, error }: FileRecord): number {
  return headBytes + (bytes === undefined ? Buffer.byteLength(error) : bytes.length)
}

/** The first frame of a segment. */
export function headerFrame(header: SegmentHeader): Buffer {
  const content = Buffer.from(JSON.stringify(header))
  const frame = Buffer.allocUnsafe(headBytes + content.length)
  writeFrame(frame, 0, { kind: kinds.header, line: 0, content })
  return frame
}

/** The frames of records. `bytes` is their total size. */
export function recordFrames(records: readonly FileRecord[], bytes: number): Buffer {
  const frames = Buffer.allocUnsafe(bytes)
  let at = 0
  for (const { line, bytes, error } of records) {
    at =
      bytes === undefined
        ? writeFrame(frames, at, { kind: kinds.failed, line, content: Buffer.from(error) })
        : writeFrame(frames, at, { kind: kinds.record, line, content: bytes })
  }
  return frames
}

/** Returns the index after the frame. */
function writeFrame(to: Buffer, at: number, frame: { kind: number; line: number; content: Buffer }): number {
  const { kind, line, content } = frame
  to[at] = kind
  to.writeUIntBE(line, at + lineAt, lineBytes)
  to.writeUInt32BE(content.length, at + lengthAt)
  content.copy(to, at + headBytes)
  return at + headBytes + content.length
}

/** Reads the frames of a segment, which arrives in pieces. */
export class FrameReader {
  header: SegmentHeader | undefined
  #rest: Buffer = Buffer.alloc(0)
  #number = 0

  /** Returns the records that are complete with these bytes. Throws an Error for bytes that are not a segment. */
  read(chunk: Buffer): SegmentRecord[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    const records: SegmentRecord[] = []
    let at = 0
    while (at + headBytes <= bytes.length) {
      const end = at + headBytes + bytes.readUInt32BE(at + lengthAt)
      if (end > bytes.length) break
      const content = bytes.subarray(at + headBytes, end)
      if (this.header === undefined) this.#readHeader(bytes[at], content)
      else records.push(this.#toRecord(bytes[at], bytes.readUIntBE(at + lineAt, lineBytes), content))
      at = end
    }
    this.#rest = bytes.subarray(at)
    return records
  }

  /** Throws an Error when the segment ends within a frame. */
  finish(): void {
    if (this.header === undefined || this.#rest.length > 0) throw new Error('a segment of an import ends early')
  }

  #readHeader(kind: number | undefined, content: Buffer): void {
    const header = kind === kinds.header ? (JSON.parse(content.toString()) as SegmentHeader) : undefined
    if (header?.v !== segmentVersion) throw new Error('a segment of an import has an unknown layout')
    this.header = header
    this.#number = header.firstRecord
  }

  #toRecord(kind: number | undefined, line: number, content: Buffer): SegmentRecord {
    const number = this.#number++
    if (kind === kinds.record) return { number, line, bytes: content }
    if (kind === kinds.failed) return { number, line, error: content.toString() }
    throw new Error('a segment of an import has an unknown frame')
  }
}
