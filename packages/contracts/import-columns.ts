import { propertyPrefix, userFields } from './conditions.ts'
import { eventColumns } from './event-columns.ts'
import type { ImportType } from './imports.ts'

/** Columns that Sluice sets itself. In a file, for example one of our exports, they are ignored. */
const serverColumns: readonly string[] = ['environment', 'undated', 'property_types', 'received_at']

/** Columns of events as files name them. */
const eventFileColumns: readonly string[] = eventColumns
  .filter(({ name }) => !serverColumns.includes(name))
  .map((column) => ('csvName' in column ? column.csvName : column.name))

/** The columns of a file of users. */
export const userFileColumns = ['user_id', ...userFields] as const

interface FileColumns {
  known: readonly string[]
  required: readonly string[]
  /** Further columns of our own exports. */
  ignored: readonly string[]
  /** Other names of known columns. */
  aliases: Readonly<Record<string, string>>
  hasProperties: boolean
}

/** The columns of the files of each type. */
export const importColumns: Readonly<Record<ImportType, FileColumns>> = {
  events: {
    known: eventFileColumns,
    required: ['event_type', 'timestamp_ms'],
    ignored: ['environment', 'received_at'],
    aliases: { timestamp: 'timestamp_ms' },
    hasProperties: true,
  },
  users: {
    known: userFileColumns,
    required: ['user_id'],
    ignored: ['first_seen', 'last_seen', 'event_count'],
    aliases: {},
    hasProperties: false,
  },
}

/**
 * The field that a column, or a member of a JSON record, of this name holds; undefined for a name that is not known.
 */
export function fieldOf(name: string, type: ImportType): string | undefined {
  const { known, aliases, hasProperties } = importColumns[type]
  if (known.includes(name) || isIgnored(name, type)) return name
  if (Object.hasOwn(aliases, name)) return aliases[name]
  return hasProperties && name.startsWith(propertyPrefix) && name.length > propertyPrefix.length ? name : undefined
}

/** Whether a column of our own exports is left out by imports. */
export function isIgnored(name: string, type: ImportType): boolean {
  return importColumns[type].ignored.includes(name)
}
