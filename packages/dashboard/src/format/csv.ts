import { guardCell, quoteCell } from '@sluice/contracts/csv-cells'

/** A row of a file: the interface's field names with their values. */
export type CsvRow = Record<string, string | number | boolean | null | undefined>

/** The fields that any of the rows has: records leave out what they have no value for. */
export const fieldsOf = (rows: readonly CsvRow[]): string[] => [...new Set(rows.flatMap((row) => Object.keys(row)))]

/**
 * Rows as CSV (RFC 4180, lines end with CRLF), with the fields of all rows as header. Cells that a spreadsheet would
 * run as a formula get a leading `'`, as in exports.
 */
export function toCsv(rows: readonly CsvRow[]): string {
  const header = fieldsOf(rows)
  const lines = rows.map((row) => header.map((field) => quoteCell(guardCell(String(row[field] ?? '')))).join(','))
  return [header.map((field) => quoteCell(guardCell(field))).join(','), ...lines].map((line) => `${line}\r\n`).join('')
}

/** A file name of letters, digits and `.-_`: `my-site_visitors_by-path_2026-11-01_2026-11-22.csv`. */
export function fileNameOf(parts: readonly string[], extension: string): string {
  const safe = parts.map((part) => part.replaceAll(/[^\p{L}\p{N}.-]+/gu, '-').replaceAll(/^-+|-+$/g, ''))
  return `${safe.filter((part) => part !== '').join('_')}.${extension}`
}
