/** What the records of a file are. */
export const importTypes = ['events', 'users'] as const
export type ImportType = (typeof importTypes)[number]

/** How the records are written: `json` is one array, `ndjson` one object a line. */
export const importFormats = ['csv', 'json', 'ndjson'] as const
export type ImportFormat = (typeof importFormats)[number]

/** `uploading → queued → processing → completed | failed | cancelled`. */
export const importStatuses = ['uploading', 'queued', 'processing', 'completed', 'failed', 'cancelled'] as const
export type ImportStatus = (typeof importStatuses)[number]
