import type { BlobContent } from './blob-store.ts'

/**
 * The chunks of `content` until `signal` is aborted: throws its reason then, even while the content waits for its next
 * chunk. The content's iterator is closed when the reader stops before its end.
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
  // One promise per chunk: a race with a promise that lasts as long as the signal would keep every chunk in memory.
  let rejectNext = (_reason: unknown): void => undefined
  const onAbort = (): void => {
    rejectNext(signal.reason)
  }
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
    // Not awaited: a content that waits would never be closed before its next chunk.
    if (!isAtEnd) chunks.return?.().catch(() => undefined)
  }
}
