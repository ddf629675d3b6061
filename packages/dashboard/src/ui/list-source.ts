import { requestOf } from '../api/request.ts'
import type { Input, OperationId } from '../api/wire.ts'
import { type CsvRow, fileNameOf } from '../format/csv.ts'
import { formatIso, ownZone } from '../format/dates.ts'
import type { NumberSource } from './more-menu.tsx'

/** Names of the interface's fields that are moments, in Unix ms. */
const momentName = /(^|_)(at|since|until|timestamp)$|^(start_date|end_date|next_run)$/

/** The cell of a field: moments, also those within lists and objects, are ISO 8601 in the zone. */
function cellOf(field: string, raw: unknown, zone: string): string | number | boolean | null {
  const readable = (name: string, value: unknown): unknown =>
    typeof value === 'number' && momentName.test(name) ? formatIso(value, zone) : value
  const value = readable(field, raw)
  if (value === null || value === undefined) return null
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  return JSON.stringify(value, readable)
}

/**
 * Where the rows of a list of records come from: the fields as the interface names them, lists and objects as JSON.
 * `zone` is that of the times on the page, an IANA name.
 */
export function listSource<Id extends OperationId>(
  label: string,
  [id, input]: readonly [Id, Input<Id>],
  records: readonly object[],
  { fileParts, zone = ownZone() }: { fileParts: readonly string[]; zone?: string },
): NumberSource {
  return {
    label,
    request: requestOf(id, input),
    rows: () =>
      records.map((record): CsvRow =>
        Object.fromEntries(Object.entries(record).map(([name, value]) => [name, cellOf(name, value, zone)])),
      ),
    fileName: fileNameOf(fileParts, 'csv'),
  }
}
