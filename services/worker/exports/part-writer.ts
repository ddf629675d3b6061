import type { BlobStore, Upload, UploadedPart } from '@sluice/blobs/blob-store'
import { collectBuffers } from '@sluice/runtime/collect-buffers'

/** Bytes of a part. Stores take 10,000 parts of 5 MiB at least, so a file may have 80 GB. */
export const partBytes = 8 * 1024 * 1024

/** Stores take no smaller one but as the last. */
const partBytesMin = 5 * 1024 * 1024

/** Room for a part and for what is kept back, so that the last part is never too small. */
const bufferBytes = partBytes + partBytesMin

/** Writes bytes as parts of an upload. */
export interface PartWriter {
  /** Bytes that were written so far. */
  readonly bytes: number
  /** Resolves when the chunk is stored or copied. Memory holds less than two parts. */
  write(chunk: Uint8Array): Promise<void>
  /** Writes the rest as a part, if there is one, and returns all parts. Unless it is the file's last, it needs 5 MiB. */
  end(): Promise<UploadedPart[]>
}

/** The memory of a part writer, which may be used for one after the other. */
export function partBuffer(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bufferBytes)
}

/** `buffer` is a `partBuffer`: new memory for each part would wait for the next collection of garbage. */
export function partWriter(
  blobs: Pick<BlobStore, 'writePart'>,
  upload: Upload,
  { firstPart, buffer, signal }: { firstPart: number; buffer: Uint8Array; signal: AbortSignal },
): PartWriter {
  const parts: UploadedPart[] = []
  let buffered = 0
  let bytes = 0

  async function flush(length: number): Promise<void> {
    signal.throwIfAborted()
    const n = firstPart + parts.length
    const { etag } = await blobs.writePart(upload, n, buffer.subarray(0, length))
    // The chunks that were copied into the part.
    collectBuffers()
    parts.push({ n, etag, bytes: length })
    buffer.copyWithin(0, length, buffered)
    buffered -= length
  }

  return {
    get bytes() {
      return bytes
    },
    write: async (chunk) => {
      bytes += chunk.length
      for (let at = 0; at < chunk.length;) {
        const piece = chunk.subarray(at, at + buffer.length - buffered)
        buffer.set(piece, buffered)
        buffered += piece.length
        at += piece.length
        if (buffered === buffer.length) await flush(partBytes)
      }
    },
    end: async () => {
      if (buffered > 0) await flush(buffered)
      return parts
    },
  }
}
