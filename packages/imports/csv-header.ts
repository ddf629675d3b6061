import { isUtf8 } from 'node:buffer'
import { eventColumns } from '@sluice/contracts/event-columns'
import type { ImportType } from '@sluice/contracts/imports'
import { invalidFormat } from '@sluice/runtime/errors'
import { splitFields } from './csv-fields.ts'
import { fileLimits } from './file-limits.ts'
import { type Delimiter, type FileRecord, quote } from './file-record.ts'

/** Columns that Sluice sets itself: files don't have them, or, as our exports, have them to no effect. */
const serverColumns: readonly string[] = ['environment', 'undated', 'property_types', 'received_at']

/** Columns of events as files name them. */
const eventFileColumns: readonly string[] = eventColumns
  .filter(({ name }) => !serverColumns.includes(name))
  .map((column) => ('csvName' in column ? column.csvName : column.name))

export const userFields = ['user_id', 'email', 'name', 'company', 'plan'] as const

/** Begins the name of a column, or of a member of a JSON record, that is one property. */
export const propertyPrefix = 'properties.'

interface FileColumns {
  known: readonly string[]
  required: readonly string[]
  /** Further columns of our own exports. */
  ignored: readonly string[]
  /** Other names of known columns. */
  aliases: Readonly<Record<string, string>>
  hasProperties: boolean
}

const columnsByType: Readonly<Record<ImportType, FileColumns>> = {
  events: {
    known: eventFileColumns,
    required: ['event_type', 'timestamp_ms'],
    ignored: ['environment', 'received_at'],
    aliases: { timestamp: 'timestamp_ms' },
    hasProperties: true,
  },
  users: {
    known: userFields,
    required: ['user_id'],
    ignored: ['first_seen', 'last_seen', 'event_count'],
    aliases: {},
    hasProperties: false,
  },
}

/** Characters of a column's name that an error shows. */
const shownLengthMax = 64

const delimiters: readonly Delimiter[] = [',', ';', '\t']

/** The delimiter that the first line of a file has most of, outside of quotes; a comma if it has none. */
export function detectDelimiter(line: Uint8Array): Delimiter {
  const counts = new Map<number, number>()
  let isQuoted = false
  for (const byte of line) {
    if (byte === quote) isQuoted = !isQuoted
    else if (!isQuoted) counts.set(byte, (counts.get(byte) ?? 0) + 1)
  }
  const countOf = (delimiter: Delimiter): number => counts.get(delimiter.charCodeAt(0)) ?? 0
  return delimiters.reduce((best, delimiter) => (countOf(delimiter) > countOf(best) ? delimiter : best))
}

/**
 * The names in the header of a CSV file. Throws 400 `Invalid format: …` for a header that is no CSV in UTF-8, has more
 * than 2,000 columns or names one twice.
 */
export function readHeader({ bytes, error }: FileRecord, delimiter: Delimiter): string[] {
  if (bytes === undefined) throw invalidFormat(`header: ${error.replace(/^Invalid format: /, '')}`)
  if (!isUtf8(bytes)) throw invalidFormat('header is not valid UTF-8')
  const names = splitFields(bytes.toString(), delimiter)
  if (names.length > fileLimits.columnsMax) {
    throw invalidFormat(`header has ${names.length} columns, more than ${fileLimits.columnsMax}`)
  }
  const seen = new Set<string>()
  for (const name of names) {
    if (seen.has(name)) throw invalidFormat(`header names column ${shown(name)} twice`)
    seen.add(name)
  }
  return names
}

/**
 * The meaning of each column of a file: the known name of the field that it holds, or undefined for one that is ignored.
 * Throws 400 `Invalid format: …` that names the first column that is not known, the field that two columns hold, or the
 * required column that is missing, and lists what is known.
 */
export function resolveColumns(names: readonly string[], type: ImportType): (string | undefined)[] {
  const fields = names.map((name) => {
    const field = fieldOf(name, type)
    if (field === undefined) throw invalidFormat(`column ${shown(name)} is not known. ${listKnown(type)}`)
    return field
  })
  const held = new Set<string>()
  for (const field of fields) {
    if (held.has(field)) throw invalidFormat(`two columns hold ${shown(field)}`)
    held.add(field)
  }
  const missing = columnsByType[type].required.find((name) => !held.has(name))
  if (missing !== undefined) throw invalidFormat(`column "${missing}" is missing. ${listKnown(type)}`)
  return fields.map((field) => (isIgnored(field, type) ? undefined : field))
}

/** The field that a column, or a member of a JSON record, of this name holds; undefined for a name that is not known. */
export function fieldOf(name: string, type: ImportType): string | undefined {
  const { known, aliases, hasProperties } = columnsByType[type]
  if (known.includes(name) || isIgnored(name, type)) return name
  if (Object.hasOwn(aliases, name)) return aliases[name]
  return hasProperties && name.startsWith(propertyPrefix) && name.length > propertyPrefix.length ? name : undefined
}

export function isIgnored(name: string, type: ImportType): boolean {
  return columnsByType[type].ignored.includes(name)
}

function listKnown(type: ImportType): string {
  const { known, hasProperties } = columnsByType[type]
  return `Known columns: ${[...known, ...(hasProperties ? ['properties.<name>'] : [])].join(', ')}`
}

function shown(name: string): string {
  return JSON.stringify(Array.from(name).slice(0, shownLengthMax).join(''))
}
