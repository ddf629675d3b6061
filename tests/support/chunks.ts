/** The bytes in chunks of the sizes, which are repeated until the end. */
export function chunksOf(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = []
  for (let at = 0; at < bytes.length;) {
    const size = sizes[chunks.length % sizes.length] ?? 1
    chunks.push(bytes.subarray(at, at + size))
    at += size
  }
  return chunks
}

/** A stream of these chunks. */
export async function* streamOf(...chunks: readonly (Buffer | string)[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield await Promise.resolve(Buffer.from(chunk as string))
}

/** All items of a stream. */
export async function allOf<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of stream) items.push(item)
  return items
}
