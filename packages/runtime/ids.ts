import { ulid } from 'ulid'

/** A new id of a resource: its prefix and a ULID, e.g. `key_01KAK5V6Z0F3N8Q2R7T4W9X1YB`. */
export function newId(prefix: string): string {
  return `${prefix}_${ulid()}`
}
