import { randomUUID } from 'node:crypto'

/** Values of `{name:Type}` placeholders. */
export type QueryParams = Readonly<Record<string, string | number | boolean | readonly (string | number)[]>>

/** A URL with more than this is refused by some proxies, and by ClickHouse itself with a megabyte. */
const urlCharactersMax = 4_096

/** A statement as `exec` and `command` of the driver take it, which send parameters in the URL alone. */
interface SentStatement {
  query: string
  query_params?: QueryParams
  http_headers?: Record<string, string>
}

/** A statement whose parameters are sent in its body if they are long, as the driver does it for queries. */
export function sentStatement(sql: string, params: QueryParams): SentStatement {
  const parts = parameterFields(params)
  if (new URLSearchParams(parts).toString().length <= urlCharactersMax) return { query: sql, query_params: params }
  const boundary = `sluice-${randomUUID()}`
  return {
    query: `${formText(boundary, statementFields(sql, params))}--${boundary}--`,
    http_headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
  }
}

/** Name and value of a text field of a form. */
export type FormField = readonly [name: string, value: string]

/**
 * The fields of a form that hold a statement and the values of its placeholders. ClickHouse reads settings, `query_id`
 * and `database` in the URL alone, and ignores fields of their names.
 */
export function statementFields(sql: string, params: QueryParams): FormField[] {
  return [['query', sql], ...parameterFields(params)]
}

/** The fields as the beginning of a multipart body. */
export function formText(boundary: string, fields: readonly FormField[]): string {
  return fields
    .map(([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
    .join('')
}

function parameterFields(params: QueryParams): [name: string, value: string][] {
  return Object.entries(params).map(([name, value]) => [`param_${name}`, formatted(value)])
}

/** https://clickhouse.com/docs/interfaces/http#cli-queries-with-parameters */
function formatted(value: QueryParams[string]): string {
  if (typeof value === 'string') return escaped(value)
  if (typeof value === 'boolean') return value ? '1' : '0'
  if (typeof value === 'number') return String(value)
  return `[${value.map((item) => (typeof item === 'string' ? `'${escaped(item)}'` : String(item))).join(',')}]`
}

const escapes: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\r': '\\r', "'": "\\'", '\\': '\\\\' }

function escaped(text: string): string {
  return text.replace(/[\t\n\r'\\]/g, (character) => escapes[character] ?? character)
}
