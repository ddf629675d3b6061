import { isUtf8 } from 'node:buffer'
import { isAbsent } from '@sluice/contracts/absent-field'
import { propertyPrefix } from '@sluice/contracts/conditions'
import { unguardCell } from '@sluice/contracts/csv-cells'
import { fieldOf, isIgnored } from '@sluice/contracts/import-columns'
import type { ImportError, ImportType } from '@sluice/contracts/imports'
import { AppError, invalidField, invalidFormat } from '@sluice/runtime/errors'
import { isJsonObject } from '@sluice/runtime/json-object'
import { parseExactly } from '@sluice/runtime/parse-exactly'
import { shownName } from '@sluice/runtime/validate'
import { splitFields } from './csv-fields.ts'
import { resolveColumns } from './csv-header.ts'
import type { FileLayout } from './file-record.ts'
import type { SegmentRecord } from './segment-frames.ts'

/** The fields of a record, with the names of `/collect`. */
export type RecordFields = Record<string, unknown>

/** Reads the fields of a record. Throws the AppError of a bad record; the error contains no values of the record. */
export type RecordParser = (bytes: Buffer) => RecordFields

/**
 * The parser for the records of a file.
 *
 * - CSV: an empty cell means absent, and so does NULL (`\N` without quotes). A cell of `timestamp_ms` with a number is
 *   a number, unless a spreadsheet has rounded it; an id must not be rounded either. `properties` contains a JSON
 *   object, and `properties.<name>` a text. The `'` that an export puts before formulas is removed (`unguardCell`).
 * - JSON: the members are the columns of CSV, with the types of `/collect`.
 *
 * A property in `properties.<name>` prevails over the one with that name in `properties`. Throws the 400 of
 * `resolveColumns`.
 */
export function recordParser(layout: FileLayout, type: ImportType): RecordParser {
  if (layout.format !== 'csv') return (bytes) => readMembers(decode(bytes), type)
  const { delimiter, columns } = layout
  const fields = resolveColumns(columns, type)
  return (bytes) => {
    const text = decode(bytes)
    return readCells({ text, delimiter }, fields)
  }
}

/** The result of `read`, or an error: the record could not be read, or `read` refused it with an AppError. */
export function attempt<T>(
  { line, number, bytes, error }: SegmentRecord,
  read: (bytes: Buffer) => T,
): { value: T; error?: never } | { value?: never; error: ImportError } {
  if (bytes === undefined) return { error: { line, record: number, message: error } }
  try {
    return { value: read(bytes) }
  } catch (problem) {
    if (!(problem instanceof AppError)) throw problem
    const { field, message } = problem
    return { error: { line, record: number, ...(field === undefined ? {} : { field }), message } }
  }
}

function decode(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw invalidFormat('record is not valid UTF-8')
  if (bytes.includes(0)) throw invalidFormat('record has a NUL character')
  return bytes.toString()
}

const number = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/
/** A long number as a spreadsheet shows and saves it: with at most six digits, and the comma of its language. */
const rounded = /^\d(?:[.,]\d{1,5})?[eE]\+\d+$/
/** An id may be any text, also one with a small e: spreadsheets write the capital letter. */
const roundedId = /^\d(?:[.,]\d{1,5})?E\+\d+$/
const ids: ReadonlySet<string> = new Set(['event_id', 'user_id', 'anonymous_id', 'session_id'])

interface CsvRecord {
  text: string
  delimiter: string
}

function readCells(csv: CsvRecord, fields: readonly (string | undefined)[]): RecordFields {
  const cells = splitFields(csv.text, csv.delimiter)
  if (cells.length !== fields.length) {
    throw invalidFormat(`record has ${cells.length} fields where the header has ${fields.length}`)
  }
  const record = new RecordBuilder()
  for (let at = 0; at < fields.length; at++) {
    const field = fields[at]
    const cell = unguardCell(cells[at] ?? '')
    if (field === undefined || cell === '') continue
    if (field === 'timestamp_ms') record.set(field, parseTimestampCell(cell))
    else if (field === 'properties') record.set(field, parsePropertiesCell(cell))
    else record.set(field, ids.has(field) ? requireWholeId(field, cell, csv) : cell)
  }
  return record.finish()
}

function parseTimestampCell(cell: string): unknown {
  // A rounded time would be wrong by up to hours.
  if (rounded.test(cell)) {
    throw invalidField('timestamp_ms', 'was rounded by a spreadsheet: format the column as a number without decimals')
  }
  return number.test(cell) ? Number(cell) : cell
}

/**
 * Throws for an id that was rounded, because different ids would become the same one. Spreadsheets write numbers without
 * quotes, unless they contain a comma that also separates the cells; another id in quotes, as exports write it, is a
 * text that only looks so.
 */
function requireWholeId(field: string, cell: string, { text, delimiter }: CsvRecord): string {
  if (roundedId.test(cell) && (cell.includes(delimiter) || !text.includes(`"${cell}"`)))
    throw invalidField(field, 'was rounded by a spreadsheet: format the column as text')
  return cell
}

function parsePropertiesCell(cell: string): unknown {
  try {
    return parseExactly(cell)
  } catch {
    throw invalidField('properties', 'must be a JSON object')
  }
}

function readMembers(text: string, type: ImportType): RecordFields {
  let members: unknown
  try {
    members = parseExactly(text)
  } catch {
    throw invalidFormat('record is not valid JSON')
  }
  if (!isJsonObject(members)) throw invalidFormat('record must be a JSON object')
  const record = new RecordBuilder()
  for (const [name, value] of Object.entries(members)) {
    const field = fieldOf(name, type)
    if (field === undefined) throw invalidField(shownName(name), 'is not known')
    if (!isIgnored(field, type)) record.set(field, value)
  }
  return record.finish()
}

/** Puts fields at the places that they have in an event of `/collect`. */
class RecordBuilder {
  readonly #record: RecordFields = {}
  #named: RecordFields | undefined

  set(field: string, value: unknown): void {
    if (field === 'timestamp_ms') {
      if (isAbsent(value)) return
      if (!isAbsent(this.#record.timestamp))
        throw invalidField('timestamp', 'must not be given together with timestamp_ms')
      this.#record.timestamp = value
    } else if (field.startsWith(propertyPrefix)) {
      // Null is absent: it must not take the value that `properties` has under this name.
      if (value === null) return
      // Without a prototype, `__proto__` is an ordinary name.
      this.#named ??= Object.create(null) as RecordFields
      this.#named[field.slice(propertyPrefix.length)] = value
    } else this.#record[field] = value
  }

  finish(): RecordFields {
    const { properties } = this.#record
    if (this.#named === undefined) return this.#record
    if (isAbsent(properties)) this.#record.properties = this.#named
    // The validation of events refuses other values.
    else if (isJsonObject(properties)) {
      this.#record.properties = Object.assign(Object.create(null), properties, this.#named) as RecordFields
    }
    return this.#record
  }
}
