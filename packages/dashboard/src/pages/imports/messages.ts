import { andList } from '../../format/names.ts'
import { formatNumber } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'

const usersNeedAdmin = 'Imports of users need a key with the scope admin.'

/** The texts of the imports' page. */
export const texts = {
  sentence: 'Files of past events, or of users. A file that is imported again stores nothing twice.',
  start: 'Import a file',
  type: 'What the file holds',
  types: { events: 'Events', users: 'Users' },
  typeHints: {
    events: 'One event in each row, with event_type and timestamp (or timestamp_ms).',
    users: 'One user in each row, with user_id, and email, name, company or plan.',
  },
  usersNeedAdmin,
  file: 'File',
  fileHint: 'CSV with a header, a JSON array, or a JSON object on each line; also compressed as .gz. At most 2 GB.',
  missingFile: 'Choose a file.',
  tooLarge: 'The file is larger than 2 GB. Split it, or compress it.',
  empty: 'The file is empty.',
  checking: 'Reading the header …',
  columns: (names: readonly string[]) => `${messages.count(names.length, 'column')}: ${names.join(', ')}`,
  json: 'A file of JSON: its records are checked while they are read.',
  isRight: 'The header is right.',
  unknownColumns: (names: readonly string[], known: readonly string[], hasProperties: boolean) => {
    const quoted = andList(names.map((name) => `“${name}”`))
    const isOne = names.length === 1
    const keep = isOne ? 'Rename it properties.<name> to keep it' : 'Rename them properties.<name> to keep them'
    const unknown = isOne ? `The column ${quoted} is not known.` : `The columns ${quoted} are not known.`
    return `${unknown}${hasProperties ? ` ${keep}.` : ''} Known columns: ${known.join(', ')}.`
  },
  otherType: (name: string, mayChoose: boolean) =>
    `This is the header of a file of ${name.toLowerCase()}. ${mayChoose ? `Choose “${name}” above.` : usersNeedAdmin}`,
  missingColumn: (name: string) => `The column “${name}” is missing.`,
  twice: (name: string) => `Two columns hold “${name}”.`,
  notText: 'This is not a text file in UTF-8. Save the sheet as “CSV UTF-8”.',
  upload: 'Import',
  uploading: (share: string) => `Uploading: ${share}`,
  counting: 'Uploaded. Counting the records …',
  stop: 'Stop the upload',
  columnsOfList: {
    created: 'Started',
    type: 'Type',
    status: 'Status',
    total: 'Records',
    processed: 'Processed',
    failed: 'Failed',
  },
  statuses: {
    uploading: 'Uploading',
    queued: 'Queued',
    processing: 'Processing',
    completed: 'Completed',
    failed: 'Failed',
    cancelled: 'Cancelled',
  },
  none: 'Nothing was imported yet',
  noneWhy: 'Bring events of the time before Sluice: from another tool, a data warehouse or a backup.',
  title: (type: string) => `Import of ${type.toLowerCase()}`,
  progress: 'Progress',
  finished: 'Ended',
  id: 'ID',
  reason: 'Reason',
  cancel: 'Cancel import',
  cancelTitle: 'Cancel this import?',
  cancelText: 'What it has stored stays.',
  cancelConfirm: 'Cancel import',
  keepOn: 'Statistics count the events when the import is completed. You can close this page: it goes on.',
  errors: 'Errors',
  errorColumns: { line: 'Line', record: 'Record', field: 'Field', message: 'Message' },
  noErrors: 'No record failed.',
  correct: 'Put the corrected records, and only these, into a new file and import that.',
  errorsOf: (count: number) => `${messages.count(count, 'record')} failed`,
  errorsEnd: (rows: number) => `The first ${formatNumber(rows)} are listed. The CSV has all of them.`,
  gone: 'The errors were kept for 30 days after the end of the import.',
}
