/** One text of those that a screen reader says together. */
export interface SpokenPart {
  text: string
  /** Texts of the same topic replace each other. */
  topic: string | undefined
  /** When it was announced, ms of `performance.now()`. */
  at: number
}

/** A screen reader has hardly begun with a text before this, and would drop it for the one that takes its place, ms. */
const joinedMs = 150

/**
 * The texts to say together once `next` is announced: those of `parts` that were announced just before and have another
 * topic, and `next`.
 */
export function withPart(parts: readonly SpokenPart[], next: SpokenPart): SpokenPart[] {
  const stays = ({ text, topic, at }: SpokenPart) =>
    next.at - at < joinedMs && text !== next.text && (topic === undefined || topic !== next.topic)
  return [...parts.filter(stays), next]
}
