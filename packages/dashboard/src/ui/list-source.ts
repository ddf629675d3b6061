import { requestOf } from '../api/request.ts'
import type { Input, OperationId } from '../api/wire.ts'
import { type CsvRow, fileNameOf } from '../format/csv.ts'
import type { NumberSource } from './numbers.tsx'

const cellOf = (value: unknown): string | number | boolean | null => {
  if (value === null || value === undefined) return null
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  return JSON.stringify(value)
}

/** Where the rows of a list of records come from: the fields as the interface names them, lists and objects as JSON. */
export function listSource<Id extends OperationId>(
  label: string,
  [id, input]: readonly [Id, Input<Id>],
  records: readonly object[],
  fileParts: readonly string[],
): NumberSource {
  return {
    label,
    request: requestOf(id, input),
    rows: () =>
      records.map((record): CsvRow =>
        Object.fromEntries(Object.entries(record).map(([name, value]) => [name, cellOf(value)])),
      ),
    fileName: fileNameOf(fileParts, 'csv'),
  }
}
