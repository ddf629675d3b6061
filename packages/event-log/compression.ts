import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Block, BlockHeaders } from './block.ts'

/** Compressing a smaller payload takes longer than writing it (docs/benchmarks.md). */
const compressedBytesMin = 8 * 1024
/** The fastest of zstd's usual levels. Rows repeat their field names, so a higher level gains little. */
const level = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }
/** Larger payloads are not compressed, so a reader can refuse every record that decompresses to more. */
export const compressedBytesMax = 64 * 1024 * 1024

/**
 * Returns the blocks as a log stores them: payloads that shrink are compressed with zstd, and `headers.encoding` says
 * so. This takes less time than kafkajs's checksum of the saved bytes. It runs on the event loop, because transferring
 * the work to another thread and back would take as long again.
 */
export function compressBlocks(blocks: readonly Block[]): readonly Block[] {
  return blocks.map((block) => {
    const { length } = block.payload
    if (length < compressedBytesMin || length > compressedBytesMax) return block
    const payload = zstdCompressSync(block.payload, level)
    return payload.length < length ? { ...block, headers: { ...block.headers, encoding: 'zstd' }, payload } : block
  })
}

/**
 * Decompresses a block that was read. A payload that does not decompress to the length in its headers was not written
 * by Sluice. It is not changed, and gets version 0, which the reader refuses.
 */
export function decompressBlock(block: Block): Block {
  const { encoding, ...headers } = block.headers
  if (encoding === undefined) return block
  try {
    const maxOutputLength = Math.max(1, Math.min(headers.bytes, compressedBytesMax))
    const payload = zstdDecompressSync(block.payload, { maxOutputLength })
    if (payload.length === headers.bytes) return { ...block, headers, payload }
  } catch {
    // The block gets version 0 below.
  }
  return { ...block, headers: { ...headers, v: 0 as BlockHeaders['v'], bytes: block.payload.length } }
}
