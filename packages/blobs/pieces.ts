import { createHash } from 'node:crypto'
import type { BlobContent, BlobStore } from './blob-store.ts'
import { openIfExists } from './open-if-exists.ts'

/** A blob with the checksum of its content. */
export interface Piece {
  name: string
  bytes: number
  /** In hex. */
  sha256: string
}

/** Stores a blob with `BlobStore.write`, and returns the checksum of the written bytes. */
export async function writePiece(store: Pick<BlobStore, 'write'>, name: string, content: BlobContent): Promise<Piece> {
  const hash = createHash('sha256')
  async function* hashed(): AsyncGenerator<Uint8Array> {
    for await (const chunk of content as AsyncIterable<Uint8Array>) {
      hash.update(chunk)
      yield chunk
    }
  }
  const { bytes } = await store.write(name, hashed())
  return { name, bytes, sha256: hash.digest('hex') }
}

/**
 * Reads a piece to its end. Throws an Error that names the piece when it is missing or differs from what was written.
 */
export async function verifyPiece(store: Pick<BlobStore, 'read'>, piece: Piece): Promise<void> {
  const content = await openIfExists(store, piece.name)
  if (content === undefined) throw new Error(`${piece.name} is missing.`)
  const hash = createHash('sha256')
  for await (const chunk of content) hash.update(chunk as Uint8Array)
  if (hash.digest('hex') !== piece.sha256) throw new Error(`${piece.name} is damaged: its checksum differs.`)
}
