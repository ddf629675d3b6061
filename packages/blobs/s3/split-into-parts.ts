import type { BlobContent } from '../blob-store.ts'
import { chunksUntilAborted } from '../chunks-until-aborted.ts'
import { partBytes } from '../part-bytes.ts'

/** The content in parts. All parts but the last have at least `partBytes`. Empty content is one empty part. */
export async function* splitIntoParts(
  content: BlobContent,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer, void, undefined> {
  let chunks: Uint8Array[] = []
  let bytes = 0
  let n = 1
  for await (const chunk of chunksUntilAborted(content, signal)) {
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
