import { userFileColumns } from '@sluice/contracts/import-columns'
import { type ImportError, importLimits } from '@sluice/contracts/imports'
import { invalidField, missingField } from '@sluice/runtime/errors'
import { hasMoreCodePoints } from '@sluice/runtime/schemas'
import { attempt, type RecordParser } from './parse-record.ts'
import type { SegmentRecord } from './segment-frames.ts'

/** The record of a user. It replaces the stored record: an absent field is `''` and clears the stored one. */
export type ImportedUser = Record<(typeof userFileColumns)[number], string>

/** The user of a record, or the error. `user_id` is required, and all fields are texts of at most 256 characters. */
export function parseImportedUser(
  record: SegmentRecord,
  parse: RecordParser,
): { value: ImportedUser; error?: never } | { value?: never; error: ImportError } {
  return attempt(record, (bytes) => {
    const fields = parse(bytes)
    const user = Object.fromEntries(userFileColumns.map((name) => [name, textOf(name, fields[name])])) as ImportedUser
    if (user.user_id === '') throw missingField('user_id')
    return user
  })
}

function textOf(name: string, value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value !== 'string') throw invalidField(name, 'must be a string')
  if (hasMoreCodePoints(value, importLimits.userFieldLengthMax)) {
    throw invalidField(name, `exceeds maximum length of ${importLimits.userFieldLengthMax}`)
  }
  if (value.includes('\0')) throw invalidField(name, 'must not contain NUL characters')
  return value.toWellFormed()
}
