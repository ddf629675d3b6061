import { isUtf8 } from 'node:buffer'
import { fieldOf, importColumns, isIgnored } from '@sluice/contracts/import-columns'
import type { ImportType } from '@sluice/contracts/imports'
import { invalidFormat } from '@sluice/runtime/errors'
import { splitFields } from './csv-fields.ts'
import { fileLimits } from './file-limits.ts'
import { type Delimiter, type FileRecord, quote } from './file-record.ts'

/** Maximum number of characters of a column's name in an error. */
const shownLengthMax = 64

const delimiters: readonly Delimiter[] = [',', ';', '\t']

/** The most frequent delimiter in the first line of a file, outside of quotes; a comma if there is none. */
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
 * The names in the header of a CSV file. Throws AppError `invalid_format` for a header that is not CSV in UTF-8, has
 * more than 2,000 columns, or contains a name twice.
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
 * For each column of a file, the name of the field that it holds; undefined for an ignored column. Throws AppError
 * `invalid_format` that names the first unknown column, the field of two columns, or the missing required column. For
 * an unknown or missing column, the error also lists the known columns.
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
  const missing = importColumns[type].required.find((name) => !held.has(name))
  if (missing !== undefined) throw invalidFormat(`column "${missing}" is missing. ${listKnown(type)}`)
  return fields.map((field) => (isIgnored(field, type) ? undefined : field))
}

function listKnown(type: ImportType): string {
  const { known, hasProperties } = importColumns[type]
  return `Known columns: ${[...known, ...(hasProperties ? ['properties.<name>'] : [])].join(', ')}`
}

function shown(name: string): string {
  return JSON.stringify(Array.from(name).slice(0, shownLengthMax).join(''))
}
