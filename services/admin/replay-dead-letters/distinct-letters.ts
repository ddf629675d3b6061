import { createHash } from 'node:crypto'
import type { Block } from '@sluice/event-log/block'

/**
 * Letters that are remembered: about 100 bytes each. Copies that are further apart are replayed, which stores nothing
 * twice.
 */
const rememberedMax = 500_000

/** Finds copies among letters by their rows. */
export interface DistinctLetters {
  /** Whether a letter is the first with its rows; later ones with these are copies. */
  isFirst(letter: Block): boolean
  /** Call it for a letter that could not be published: the next one with its rows is the first again. */
  forget(letter: Block): void
}

/**
 * A writer or a replay that was killed may have published letters twice; without this, each copy would become a dead
 * letter again.
 */
export function distinctLetters(): DistinctLetters {
  const seen = new Set<string>()
  return {
    isFirst: (letter) => {
      const key = keyOf(letter)
      if (seen.has(key)) return false
      if (seen.size >= rememberedMax) seen.clear()
      seen.add(key)
      return true
    },
    forget: (letter) => seen.delete(keyOf(letter)),
  }
}

function keyOf({ headers, payload }: Block): string {
  const { letter: _, ...before } = headers
  return createHash('sha256').update(JSON.stringify(before)).update(payload).digest('base64')
}
