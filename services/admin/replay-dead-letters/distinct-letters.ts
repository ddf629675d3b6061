import { createHash } from 'node:crypto'
import type { Block } from '@sluice/event-log/block'

/** Letters that are remembered: about 100 bytes each. Copies that are further apart are replayed, which stores nothing twice. */
const rememberedMax = 500_000

/**
 * Tells for one letter after the other whether it is the first with its rows. A writer or a replay that was killed may
 * have published letters twice; without this, each copy would become a dead letter again.
 */
export function distinctLetters(): (letter: Block) => boolean {
  const seen = new Set<string>()
  return ({ headers, payload }) => {
    const { letter: _, ...before } = headers
    const key = createHash('sha256').update(JSON.stringify(before)).update(payload).digest('base64')
    if (seen.has(key)) return false
    if (seen.size >= rememberedMax) seen.clear()
    seen.add(key)
    return true
  }
}
