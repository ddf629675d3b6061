import { invalidFormat } from '@sluice/runtime/errors'
import { fileLimits } from './file-limits.ts'
import { type FileRecord, newline, quote, type RecordScanner, recordTooLarge } from './file-record.ts'
import { isWhiteSpace } from './line-scanner.ts'

const { recordBytesMax } = fileLimits

const unterminatedList = invalidFormat('the file ends before its list does').message
const trailingContent = invalidFormat('the file has content after the end of its list').message

const comma = 0x2c
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/**
 * Finds the elements of a JSON list by brackets and strings, without parsing the elements. Invalid JSON inside an
 * element affects only that element, if its brackets match. JSON strings contain no line ends, so an unclosed string
 * ends its element at the end of the line; the rest of the element may then appear as further bad records. An element
 * without its closing bracket extends to the end of the file.
 *
 * If the file ends inside the list, or continues after it, there is one further, failed record.
 */
export class JsonListScanner implements RecordScanner {
  #line: number
  #state: 'before' | 'within' | 'after' | 'refused' = 'before'
  /** Number of bytes at the start of the next call that are scanned already. */
  #scanned = 0
  /** The current element, if any: its start in the bytes of this call. `#startLine` is its line. */
  #start: number | undefined
  #startLine = 0
  #depth = 0
  #isInText = false
  /** True when the element exceeds the size limit of a record. Its bytes are then ignored. */
  #isTooLarge = false

  constructor(line: number) {
    this.#line = line
  }

  scan(bytes: Buffer, isLast: boolean, found: FileRecord[]): number {
    let at = this.#scanned
    if (this.#state === 'before') {
      // The format was recognised by this bracket.
      while (bytes[at] !== openBracket) if (bytes[at++] === newline) this.#line++
      at++
      this.#state = 'within'
    }
    for (; at < bytes.length; at++) {
      if (this.#state === 'refused') break
      else if (this.#state === 'after') this.#scanAfter(bytes[at], found)
      else if (this.#isInText) {
        at = endOfPlainText(bytes, at)
        if (at === bytes.length) break
        if (bytes[at] === backslash) {
          if (at + 1 === bytes.length && !isLast) break
          // The next round handles a line end inside a string.
          if (bytes[at + 1] !== newline) at++
        } else if (bytes[at] === quote) this.#isInText = false
        else {
          this.#endElement(bytes, at, found)
          this.#line++
        }
      } else this.#scanStructure(bytes, at, found)
    }
    if (this.#state === 'refused') return bytes.length
    if (isLast) {
      this.#finish(bytes, found)
      return bytes.length
    }
    return this.#keep(at)
  }

  #scanStructure(bytes: Buffer, at: number, found: FileRecord[]): void {
    const byte = bytes[at]
    if (isWhiteSpace(byte)) {
      if (byte === newline) this.#line++
      return
    }
    if (this.#depth === 0 && (byte === comma || byte === closeBracket)) {
      // Without an element between two commas, there is no record.
      if (this.#start !== undefined) this.#endElement(bytes, at, found)
      if (byte === closeBracket) this.#state = 'after'
      return
    }
    if (this.#start === undefined) {
      this.#start = at
      this.#startLine = this.#line
    }
    if (byte === quote) this.#isInText = true
    else if (byte === openBrace || byte === openBracket) this.#depth++
    else if ((byte === closeBrace || byte === closeBracket) && this.#depth > 0) this.#depth--
  }

  #scanAfter(byte: number | undefined, found: FileRecord[]): void {
    if (byte === newline) this.#line++
    if (isWhiteSpace(byte)) return
    found.push({ line: this.#line, error: trailingContent })
    this.#state = 'refused'
  }

  #endElement(bytes: Buffer, end: number, found: FileRecord[]): void {
    const start = this.#start ?? 0
    if (this.#isTooLarge || end - start > recordBytesMax) found.push({ line: this.#startLine, error: recordTooLarge })
    else found.push({ line: this.#startLine, bytes: bytes.subarray(start, end) })
    this.#start = undefined
    this.#depth = 0
    this.#isInText = false
    this.#isTooLarge = false
  }

  #finish(bytes: Buffer, found: FileRecord[]): void {
    if (this.#state !== 'within') return
    const isCut = this.#depth > 0 || this.#isInText
    if (this.#start !== undefined && !isCut) this.#endElement(bytes, bytes.length, found)
    found.push({ line: isCut ? this.#startLine : this.#line, error: unterminatedList })
  }

  /** The bytes before the current element are consumed, and those of an element that is too large. */
  #keep(at: number): number {
    if (this.#start !== undefined && at - this.#start > recordBytesMax) this.#isTooLarge = true
    const used = this.#isTooLarge ? at : (this.#start ?? at)
    if (this.#start !== undefined) this.#start = 0
    this.#scanned = at - used
    return used
  }
}

/** The index of the next quote, backslash or end of a line, or the length of `bytes`. */
function endOfPlainText(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length && bytes[at] !== quote && bytes[at] !== backslash && bytes[at] !== newline) at++
  return at
}
