import { ulid } from 'ulid'

/** The source of a regular expression that matches the ids of a prefix. */
export function idPattern(prefix: string): string {
  return `${prefix}_[0-9A-HJKMNP-TV-Z]{26}`
}

const anyId = new RegExp(`^${idPattern('[a-z]+')}$`)

/** Whether a text has the form of an id that `newId` makes. */
export function isId(text: string): boolean {
  return anyId.test(text)
}

/** A new id of a resource: its prefix and a ULID, e.g. `key_01KAK5V6Z0F3N8Q2R7T4W9X1YB`. */
export function newId(prefix: string): string {
  return `${prefix}_${ulid()}`
}
