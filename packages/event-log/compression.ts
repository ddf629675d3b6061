import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Block, BlockHeaders } from '@sluice/contracts/block'

/** Smaller payloads cost more to compress than to write (docs/benchmarks.md). */
const compressedBytesMin = 8 * 1024
/** The fastest of zstd's usual levels; rows repeat their field names, so that higher ones gain little. */
const level = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }
/** Larger ones stay as they are, so that no record of somebody else can unpack to more. */
const compressedBytesMax = 64 * 1024 * 1024

/**
 * Blocks as a log stores them: payloads worth it as zstd, with `headers.encoding`. It costs less than kafkajs's checksum
 * of what it saves; and on the event loop, for a trip to a thread and back costs as much of it again.
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
 * The reverse, for a block that was read. What does not unpack to the length that it promises is no block of ours: it
 * keeps its payload and gets version 0, which the reader refuses.
 */
export function decompressBlock(block: Block): Block {
  const { encoding, ...headers } = block.headers
  if (encoding === undefined) return block
  try {
    const maxOutputLength = Math.max(1, Math.min(headers.bytes, compressedBytesMax))
    const payload = zstdDecompressSync(block.payload, { maxOutputLength })
    if (payload.length === headers.bytes) return { ...block, headers, payload }
  } catch {
    // Refused below.
  }
  return { ...block, headers: { ...headers, v: 0 as BlockHeaders['v'], bytes: block.payload.length } }
}
