import { invalidFormat } from '@sluice/runtime/errors'
import { fileLimits } from './file-limits.ts'
import { carriageReturn, type FileRecord, newline, quote, type RecordScanner, recordTooLarge } from './file-record.ts'

const { recordBytesMax } = fileLimits

const notClosed = invalidFormat('a quoted field is not closed').message
const textAfterQuote = invalidFormat('text follows a quoted field').message

/**
 * Limit of the bytes that may be read again after bad quotes: a fixed number, and a number for each byte of the file.
 * Without a limit, a file in which every line opens a quote would be read for days.
 */
const rereadBytesFree = 16 * recordBytesMax
const rereadBytesPerByte = 2

/** The end of a record, or the problem of a record without an end. Undefined when further bytes decide it. */
type RecordEnd = { at: number; problem?: string } | undefined

/**
 * Finds the records of CSV (RFC 4180). A line ends with LF, CRLF or CR, which may be mixed. Empty lines are skipped. A
 * quote has its meaning only at the start of a field, and is an ordinary character elsewhere.
 *
 * A record with bad quotes, or one that is not complete within `recordBytesMax`, fails alone. Reading continues at the
 * line after the record's first line, so that the records which an unclosed quote seems to contain are found. Normal
 * files stay below the limit of bytes that are read again. Above it, reading continues at the line after the problem
 * instead.
 */
export class CsvScanner implements RecordScanner {
  readonly #delimiter: number
  /** The line and the offset in the file at which the next call begins. */
  #line: number
  #offset = 0
  #reread = 0
  /** True while the rest of a line must be ignored. */
  #isSkipping = false

  constructor(delimiter: string, line: number) {
    this.#delimiter = delimiter.charCodeAt(0)
    this.#line = line
  }

  scan(bytes: Buffer, isLast: boolean, found: FileRecord[]): number {
    const { length } = bytes
    // The index of the next one at or after `at`; `length` if there is none.
    let nextNewline = -1
    let nextReturn = -1
    let nextQuote = -1
    let at = 0
    while (at < length) {
      if (nextNewline < at) nextNewline = indexOf(bytes, newline, at)
      if (nextReturn < at) nextReturn = indexOf(bytes, carriageReturn, at)
      const lineEnd = Math.min(nextNewline, nextReturn)
      if (this.#isSkipping) {
        at = lineEnd
        this.#isSkipping = at === length
        continue
      }
      if (lineEnd === at) {
        // A CR at the end of the bytes may be the first half of a CRLF.
        if (nextReturn === at && at + 1 === length && !isLast) break
        at += nextReturn === at && nextNewline === at + 1 ? 2 : 1
        this.#line++
        continue
      }
      if (nextQuote < at) nextQuote = indexOf(bytes, quote, at)
      const end =
        nextQuote < lineEnd ? this.#endOfQuoted(bytes, at, isLast) : endOfPlain(at, lineEnd, lineEnd < length || isLast)
      if (end === undefined) break
      if (end.problem === undefined) {
        found.push({ line: this.#line, bytes: bytes.subarray(at, end.at) })
        if (lineEnd < end.at) this.#line += countLines(bytes, at, end.at)
        at = end.at
      } else {
        found.push({ line: this.#line, error: end.problem })
        at = this.#resumeAt(bytes, at, { lineEnd, problemAt: end.at })
      }
    }
    this.#offset += at
    return at
  }

  /** Returns where reading continues after a bad record that starts at `at` and whose first line ends at `lineEnd`. */
  #resumeAt(bytes: Buffer, at: number, { lineEnd, problemAt }: { lineEnd: number; problemAt: number }): number {
    const rereadMax = rereadBytesFree + rereadBytesPerByte * (this.#offset + at)
    if (problemAt > lineEnd) {
      if (this.#reread + problemAt - lineEnd > rereadMax) {
        // Do not separate the halves of a CRLF.
        const to = bytes[problemAt - 1] === carriageReturn ? problemAt - 1 : problemAt
        this.#line += countLines(bytes, at, to)
        this.#isSkipping = true
        return to
      }
      this.#reread += problemAt - lineEnd
    }
    this.#isSkipping = lineEnd === bytes.length
    return lineEnd
  }

  /** The end of a record that starts at `start` and has a quote in its first line. */
  #endOfQuoted(bytes: Buffer, start: number, isLast: boolean): RecordEnd {
    // Bytes beyond the limit are not examined, because the result must not depend on how many bytes were read.
    const end = Math.min(bytes.length, start + recordBytesMax + 1)
    const isTooLarge = end - start > recordBytesMax
    let at = start
    for (;;) {
      if (at < end && bytes[at] === quote) {
        at = endOfQuotedField(bytes, at + 1, end)
        if (at > end) {
          if (isTooLarge || isLast) return { at: end, problem: notClosed }
          return undefined
        }
        if (at < end && !this.#isEndOfField(bytes[at])) return { at, problem: textAfterQuote }
      } else while (at < end && !this.#isEndOfField(bytes[at])) at++
      if (at >= end) {
        if (isTooLarge) return { at: end, problem: recordTooLarge }
        return isLast ? { at } : undefined
      }
      if (bytes[at] !== this.#delimiter) return { at }
      at++
    }
  }

  #isEndOfField(byte: number | undefined): boolean {
    return byte === this.#delimiter || byte === newline || byte === carriageReturn
  }
}

/**
 * The index after the quote that closes a field whose text starts at `at`. Greater than `end` if there is no such quote
 * before `end`.
 */
function endOfQuotedField(bytes: Buffer, at: number, end: number): number {
  for (; at < end; at++) {
    if (bytes[at] !== quote) continue
    if (at + 1 < end && bytes[at + 1] === quote) at++
    else return at + 1
  }
  return end + 1
}

/** The end of a record without quotes. */
function endOfPlain(start: number, lineEnd: number, isComplete: boolean): RecordEnd {
  if (lineEnd - start > recordBytesMax) return { at: lineEnd, problem: recordTooLarge }
  return isComplete ? { at: lineEnd } : undefined
}

/** The index of a byte, or the length of `bytes`. */
function indexOf(bytes: Buffer, byte: number, from: number): number {
  const index = bytes.indexOf(byte, from)
  return index === -1 ? bytes.length : index
}

/** The number of line ends from `from` up to `to`. */
function countLines(bytes: Buffer, from: number, to: number): number {
  let lines = 0
  for (let at = from; at < to; at++) {
    if (bytes[at] === newline || (bytes[at] === carriageReturn && bytes[at + 1] !== newline)) lines++
  }
  return lines
}
