import { createHash } from 'node:crypto'

/** The contents of an event of the ledger besides its id and time; they depend only on its key. */
export interface EventContent {
  type: string
  properties: { key: string; text: string; size: number }
  fields: { user_id: string; session_id: string; url: string }
}

/** The same for the same key, in the process that tracks it and in the audit. */
export function contentOf(key: string): EventContent {
  const hash = createHash('sha256').update(key).digest('hex')
  const size = Number.parseInt(hash.slice(0, 2), 16)
  return {
    type: size % 2 === 0 ? 'order' : 'view',
    properties: { key, text: `Grüße, "${hash}"\n`.repeat(1 + (size % 5)), size },
    fields: { user_id: `user-${hash.slice(0, 6)}`, session_id: hash.slice(6, 30), url: `https://shop.example/${key}` },
  }
}
