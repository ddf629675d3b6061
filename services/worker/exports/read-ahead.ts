/**
 * Reads each item of a source and yields what was read, in order. While the caller works with one, the next one is
 * read, unless `mayReadAhead` forbids it for the current one. A failure to read is thrown where the item would be. A
 * caller that stops has to abort what was read ahead.
 */
export async function* readAhead<T, R>(
  source: AsyncIterable<T>,
  read: (item: T) => Promise<R>,
  mayReadAhead: (current: R) => boolean,
): AsyncGenerator<R, void, undefined> {
  const items = source[Symbol.asyncIterator]()
  const next = async (): Promise<{ value: R } | undefined> => {
    const item = await items.next()
    return item.done === true ? undefined : { value: await read(item.value) }
  }
  let ahead: ReturnType<typeof next> | undefined
  try {
    for (;;) {
      const current = await (ahead ?? next())
      if (current === undefined) return
      ahead = mayReadAhead(current.value) ? next() : undefined
      // The promise is awaited when the caller requests the next value, which may never happen.
      ahead?.catch(() => undefined)
      yield current.value
    }
  } finally {
    await ahead?.catch(() => undefined)
    await items.return?.()
  }
}
