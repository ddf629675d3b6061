import { isAbsent } from '@sluice/contracts/absent-field'
import type { ImportError } from '@sluice/contracts/imports'
import type { Environment } from '@sluice/contracts/scopes'
import { encodeEvent, type ValidEvent } from '@sluice/events/encode-event'
import { AppError, invalidField, missingField, tooLarge } from '@sluice/runtime/errors'
import { fileLimits } from './file-limits.ts'
import { attempt, type RecordFields, type RecordParser } from './parse-record.ts'
import type { SegmentRecord } from './segment-frames.ts'

/** The fields that all events of an import share. */
export interface EventImport {
  siteId: string
  /** Environment of the credential. The events are stored in it. */
  environment: Environment
  /** When the upload was accepted, Unix ms. It does not change, so a repeated import produces identical rows. */
  receivedAt: number
  /** Hexadecimal SHA-256 of the decompressed file. */
  sha256: string
}

/** Number of hexadecimal digits of the file's hash in the ids of its events. Ids have at most 64 characters. */
const hashDigits = 32
/** Maximum bytes of a UTF-16 unit in UTF-8. */
const bytesPerUnitMax = 3

/**
 * The row of a record of events, validated and encoded like an event of `/collect`, or the error. In addition,
 * `timestamp_ms` is required, and `site_id` must be absent or that of the import. A missing `event_id` becomes
 * `imp_<hash>_<number>`: the first 32 digits of the file's SHA-256, and the number of the record. A file that is
 * imported twice therefore produces the same events.
 *
 * The caller applies the rule that depends on the site: how long it keeps events.
 */
export function encodeImportedEvent(
  record: SegmentRecord,
  parse: RecordParser,
  job: EventImport,
): { value: ValidEvent; error?: never } | { value?: never; error: ImportError } {
  return attempt(record, (bytes) => {
    const { receivedAt, environment } = job
    const event = complete(parse(bytes), record, job)
    const encoded = namingTimestampAsFilesDo(() => encodeEvent(event, { receivedAt, environment }))
    if (isTooLarge(encoded.line)) {
      throw tooLarge(`Event is larger than ${fileLimits.eventRowBytesMax} bytes when it is stored`)
    }
    return encoded
  })
}

function complete(event: RecordFields, { number }: SegmentRecord, { siteId, sha256 }: EventImport): RecordFields {
  if (isAbsent(event.site_id)) event.site_id = siteId
  else if (event.site_id !== siteId) throw invalidField('site_id', "must be absent or the import's site")
  if (isAbsent(event.timestamp)) throw missingField('timestamp_ms')
  if (isAbsent(event.event_id)) event.event_id = `imp_${sha256.slice(0, hashDigits)}_${number}`
  return event
}

function namingTimestampAsFilesDo<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw error instanceof AppError ? inTermsOfFiles(error) : error
  }
}

/** The error of an event, with the name that `timestamp` has in files. */
export function inTermsOfFiles(error: AppError): AppError {
  if (error.field !== 'timestamp') return error
  const { code, message } = error
  return new AppError(code, { message: message.replace('timestamp', 'timestamp_ms'), field: 'timestamp_ms' })
}

function isTooLarge(line: string): boolean {
  const { eventRowBytesMax } = fileLimits
  return line.length * bytesPerUnitMax > eventRowBytesMax && Buffer.byteLength(line) > eventRowBytesMax
}
