import type { ExportFormat } from '@sluice/contracts/exports'
import type { ClickHouseSettings, QueryParams } from '../clickhouse/client.ts'
import type { Statement } from '../clickhouse/query-runner.ts'

/** A column of a file. `json` columns hold JSON, `number` columns may be NULL. */
export interface ExportColumn {
  name: string
  kind: 'text' | 'number' | 'json'
}

/** The rows of a file before they are written in its format. */
export interface ExportRows {
  columns: readonly ExportColumn[]
  /** A SELECT of the columns, named `c0`, `c1`, …, in the order of the rows. */
  sql: string
  params: QueryParams
  /** Rows that are not stored, which the SELECT reads as table `b` (../external-table.ts). */
  posted?: {
    /** Columns of `b` with their types. */
    structure: string
    /** JSON lines, and their number. */
    lines: Buffer
    count: number
  }
}

/** The format of the rows of a file. */
export interface RowsFormat {
  format: ExportFormat
  /** Whether CSV cells are guarded (packages/contracts/csv-cells.ts). */
  isCsvSafe: boolean
}

/** The last bytes of a result with rows in each format. */
export const resultEnds: Readonly<Record<ExportFormat, string>> = {
  csv: '\n',
  ndjson: '\n',
  json: '}',
  parquet: 'PAR1',
}

/** The SELECT of some columns, whose expressions are given in their order. */
export function columnList(expressions: readonly string[]): string {
  return expressions.map((expression, index) => `${expression} AS c${index}`).join(',\n    ')
}

/**
 * The statement that writes rows in a format. It writes neither the header of a file nor the brackets around the rows.
 * Rows of `json` have a comma between them, but none after the last.
 */
export function formatStatement(
  { columns, sql, params }: ExportRows,
  { format, isCsvSafe }: RowsFormat,
): Statement & { settings: ClickHouseSettings } {
  const from = `FROM (${sql})`
  switch (format) {
    case 'csv': {
      const cells = columns.map(({ kind }, index) =>
        kind === 'text' && isCsvSafe ? guarded(`c${index}`) : `c${index}`,
      )
      return { sql: `SELECT ${cells.join(', ')} ${from} FORMAT CSV`, params, settings: csvSettings }
    }
    case 'ndjson':
      return {
        sql: `SELECT ${jsonObject(columns)} ${from} FORMAT TabSeparatedRaw`,
        params: { ...params, ...memberNames(columns) },
        settings: jsonSettings,
      }
    case 'json':
      return {
        sql: `SELECT ${jsonObject(columns)} ${from} FORMAT CustomSeparated`,
        params: { ...params, ...memberNames(columns) },
        settings: listSettings,
      }
    case 'parquet': {
      const named = columns.map(({ name }, index) => `c${index} AS ${identifier(name)}`)
      return { sql: `SELECT ${named.join(', ')} ${from} FORMAT Parquet`, params, settings: parquetSettings }
    }
  }
}

/** Settings of `toJSONString`. */
const jsonSettings: ClickHouseSettings = { output_format_json_escape_forward_slashes: 0 }

const csvSettings: ClickHouseSettings = {
  ...jsonSettings,
  format_csv_delimiter: ',',
  format_csv_null_representation: '',
  output_format_csv_crlf_end_of_line: 0,
}

/** Rows as they are, separated by a comma. */
const listSettings: ClickHouseSettings = {
  ...jsonSettings,
  format_custom_escaping_rule: 'Raw',
  format_custom_field_delimiter: '',
  format_custom_row_before_delimiter: '',
  format_custom_row_after_delimiter: '',
  format_custom_row_between_delimiter: ',\n',
  format_custom_result_before_delimiter: '',
  format_custom_result_after_delimiter: '',
}

const parquetSettings: ClickHouseSettings = {
  ...jsonSettings,
  // ClickHouse holds one row group of each column in memory.
  output_format_parquet_row_group_size: '100000',
  output_format_parquet_string_as_string: 1,
  output_format_parquet_compression_method: 'zstd',
}

/** SQL of `guardCell` (packages/contracts/csv-cells.ts). */
function guarded(cell: string): string {
  const formula = String.raw`match(${cell}, '^[=+\\-@\\t\\r]')`
  const plainNumber = String.raw`match(${cell}, '^[+-]?[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?$')`
  const quotedFormula = String.raw`match(${cell}, '^\'+[=+\\-@\\t\\r]')`
  return String.raw`if((${formula} AND NOT ${plainNumber}) OR ${quotedFormula}, concat('\'', ${cell}), ${cell})`
}

/** The name of a column may be the name of a property, which is a client's text. Therefore the names are parameters. */
function memberNames(columns: readonly ExportColumn[]): QueryParams {
  return Object.fromEntries(
    columns.map(({ name }, index) => [`member_${index}`, `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`]),
  )
}

function jsonObject(columns: readonly ExportColumn[]): string {
  const members = columns.map(({ kind }, index) => {
    const value = { text: `toJSONString(c${index})`, number: `ifNull(toString(c${index}), 'null')`, json: `c${index}` }
    return `{member_${index}:String}, ${value[kind]}`
  })
  return `concat(${members.join(', ')}, '}')`
}

function identifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, String.raw`\$&`)}\``
}
