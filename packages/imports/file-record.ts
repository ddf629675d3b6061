import { invalidFormat } from '@sluice/runtime/errors'
import { fileLimits } from './file-limits.ts'

/** The layout of a file, which is needed to read its records. */
export type FileLayout =
  | { format: 'json' | 'ndjson' }
  | {
      format: 'csv'
      delimiter: Delimiter
      /** The cells of the header. */
      columns: string[]
    }

/** The character between the cells of CSV. */
export type Delimiter = ',' | ';' | '\t'

/** One record of a file: its bytes without the end of its line, or the message of an error where it can't be read. */
export type FileRecord = { line: number; bytes: Buffer; error?: never } | { line: number; bytes?: never; error: string }

/** Finds the records of a file in pieces of it. `line` of the records is the line of the file, from 1. */
export interface RecordScanner {
  /**
   * Appends the records that `bytes` holds to `found`, and returns how many of the bytes were consumed: the others
   * stand at the start of the next call's. `isLast` says that the file ends with these bytes; all of them are then
   * consumed.
   */
  scan(bytes: Buffer, isLast: boolean, found: FileRecord[]): number
}

/** The message of a record that is larger than a record may be. */
export const recordTooLarge = invalidFormat(`record is larger than ${fileLimits.recordBytesMax} bytes`).message

export const newline = 10
export const carriageReturn = 13
export const quote = 0x22
export const tab = 9
export const space = 0x20
