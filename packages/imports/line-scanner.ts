import { fileLimits } from './file-limits.ts'
import {
  carriageReturn,
  type FileRecord,
  newline,
  type RecordScanner,
  recordTooLarge,
  space,
  tab,
} from './file-record.ts'

const { recordBytesMax } = fileLimits

/** Finds the records of NDJSON: each line that contains more than white space. A line ends with LF. */
export class LineScanner implements RecordScanner {
  #line: number
  /** True while the rest of a line must be ignored. */
  #isSkipping = false

  constructor(line: number) {
    this.#line = line
  }

  scan(bytes: Buffer, isLast: boolean, found: FileRecord[]): number {
    let at = 0
    while (at < bytes.length) {
      const index = bytes.indexOf(newline, at)
      const end = index === -1 ? bytes.length : index
      const isTooLarge = end - at > recordBytesMax
      if (index === -1 && !isLast && !isTooLarge && !this.#isSkipping) break
      if (!this.#isSkipping) {
        if (isTooLarge) found.push({ line: this.#line, error: recordTooLarge })
        else if (!isBlank(bytes, at, end)) found.push({ line: this.#line, bytes: bytes.subarray(at, end) })
      }
      this.#isSkipping = index === -1
      if (index === -1) return end
      this.#line++
      at = end + 1
    }
    return at
  }
}

function isBlank(bytes: Buffer, from: number, to: number): boolean {
  let at = from
  while (at < to && isWhiteSpace(bytes[at])) at++
  return at === to
}

/** White space of JSON (RFC 8259). */
export function isWhiteSpace(byte: number | undefined): boolean {
  return byte === space || byte === tab || byte === carriageReturn || byte === newline
}
