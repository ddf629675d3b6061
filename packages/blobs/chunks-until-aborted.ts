import type { BlobContent } from './blob-store.ts'

/**
 * The chunks of `content`. When `signal` aborts, it throws the signal's reason, even while the content waits for its
 * next chunk. When the reader stops early, the content's iterator is closed.
 */
export async function* chunksUntilAborted(
  content: BlobContent,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (signal === undefined) {
    yield* content
    return
  }
  if (!(Symbol.asyncIterator in content)) {
    for (const chunk of content) {
      signal.throwIfAborted()
      yield chunk
    }
    return
  }
  const chunks = content[Symbol.asyncIterator]()
  let isAtEnd = false
  // One promise per chunk: a race with one promise that exists as long as the signal would keep every chunk in memory.
  let rejectNext = (_reason: unknown): void => undefined
  const onAbort = (): void => rejectNext(signal.reason)
  signal.addEventListener('abort', onAbort)
  try {
    for (;;) {
      signal.throwIfAborted()
      const next = Promise.withResolvers<IteratorResult<Uint8Array, unknown>>()
      rejectNext = next.reject
      chunks.next().then(next.resolve, next.reject)
      const result = await next.promise
      if (result.done) {
        isAtEnd = true
        return
      }
      yield result.value
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
    // Not awaited, because a content that waits for its next chunk closes only after that chunk.
    if (!isAtEnd) chunks.return?.().catch(() => undefined)
  }
}
