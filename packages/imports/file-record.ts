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

/** One record of a file: its bytes without the line end, or an error message if it can't be read. */
export type FileRecord = { line: number; bytes: Buffer; error?: never } | { line: number; bytes?: never; error: string }

/** Finds the records of a file, which is read in pieces. `line` of a record is its line in the file, from 1. */
export interface RecordScanner {
  /**
   * Appends the records in `bytes` to `found`, and returns the number of consumed bytes. The caller passes the other
   * bytes again at the start of the next call. With `isLast`, the file ends with these bytes, and all of them are
   * consumed.
   */
  scan(bytes: Buffer, isLast: boolean, found: FileRecord[]): number
}

/** The message for a record that exceeds the size limit. */
export const recordTooLarge = invalidFormat(`record is larger than ${fileLimits.recordBytesMax} bytes`).message

export const newline = 10
export const carriageReturn = 13
export const quote = 0x22
export const tab = 9
export const space = 0x20
