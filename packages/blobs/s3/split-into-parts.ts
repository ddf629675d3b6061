import type { BlobContent } from '../blob-store.ts'
import { untilAborted } from '../until-aborted.ts'

/** Content up to this length is sent in one request. */
export const partBytesFirst = 8 * 1024 * 1024
const partsOfOneSize = 1_000

/**
 * Bytes of part `n`, from 1: 8 MiB for a thousand parts, 16 MiB for the next thousand, and so on up to 80 MiB. Memory
 * stays small where content is, and the 10,000 parts that S3 allows hold 430 GiB.
 */
export function partBytes(n: number): number {
  return partBytesFirst * Math.ceil(n / partsOfOneSize)
}

/** The content in parts of at least `partBytes` but the last; one empty part for empty content. */
export async function* splitIntoParts(
  content: BlobContent,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer, void, undefined> {
  let chunks: Uint8Array[] = []
  let bytes = 0
  let n = 1
  for await (const chunk of untilAborted(content, signal)) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes < partBytes(n)) continue
    yield Buffer.concat(chunks, bytes)
    chunks = []
    bytes = 0
    n++
  }
  if (bytes > 0 || n === 1) yield Buffer.concat(chunks, bytes)
}
