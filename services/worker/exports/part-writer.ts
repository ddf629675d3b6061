import type { BlobStore, MultipartUpload, UploadedPart } from '@sluice/blobs/blob-store'
import { partBytes, partBytesMin } from '@sluice/blobs/part-bytes'
import { collectBuffers } from '@sluice/runtime/collect-buffers'

/** Writes bytes as parts of an upload. */
export interface PartWriter {
  /** Bytes that were written so far. */
  readonly bytes: number
  /** Resolves when the chunk is stored or copied. Memory holds less than two parts. */
  write(chunk: Uint8Array): Promise<void>
  /**
   * Writes the rest, if there is any, as a part, and returns all parts. A part that is not the file's last needs 5 MiB.
   */
  end(): Promise<UploadedPart[]>
}

/** The memory of part writers, which several may use one after the other. It grows with the parts. */
export interface PartBuffer {
  bytes: Uint8Array
}

export function partBuffer(): PartBuffer {
  return { bytes: new Uint8Array(0) }
}

/** Room for part `n` and for what is kept back, so that the last part is never too small. */
function roomFor(n: number): number {
  return partBytes(n) + partBytesMin
}

/** `buffer` is a `partBuffer`. New memory for each part would stay allocated until the next garbage collection. */
export function partWriter(
  blobs: Pick<BlobStore, 'uploadPart'>,
  upload: MultipartUpload,
  { firstPart, buffer, signal }: { firstPart: number; buffer: PartBuffer; signal: AbortSignal },
): PartWriter {
  const parts: UploadedPart[] = []
  let n = firstPart
  let buffered = 0
  let bytes = 0

  async function flush(length: number): Promise<void> {
    signal.throwIfAborted()
    const { etag } = await blobs.uploadPart(upload, n, buffer.bytes.subarray(0, length))
    // The chunks that were copied into the part.
    collectBuffers()
    parts.push({ n, etag, bytes: length })
    buffer.bytes.copyWithin(0, length, buffered)
    buffered -= length
    n++
  }

  /** Appends as much of the chunk as there is room for; returns the number of bytes. */
  function append(chunk: Uint8Array): number {
    const room = roomFor(n)
    if (buffer.bytes.length < room) {
      const larger = new Uint8Array(room)
      larger.set(buffer.bytes.subarray(0, buffered))
      buffer.bytes = larger
    }
    const piece = chunk.subarray(0, room - buffered)
    buffer.bytes.set(piece, buffered)
    buffered += piece.length
    return piece.length
  }

  return {
    get bytes() {
      return bytes
    },
    write: async (chunk) => {
      bytes += chunk.length
      for (let at = 0; at < chunk.length;) {
        at += append(chunk.subarray(at))
        if (buffered === roomFor(n)) await flush(partBytes(n))
      }
    },
    end: async () => {
      if (buffered > 0) await flush(buffered)
      return parts
    },
  }
}
