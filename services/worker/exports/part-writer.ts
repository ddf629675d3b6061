import type { BlobStore, Upload, UploadedPart } from '@sluice/blobs/blob-store'

/** Bytes of a part. Stores take 10,000 parts of 5 MiB at least, so a file may have 80 GB. */
export const partBytes = 8 * 1024 * 1024

/** Writes bytes as parts of an upload. */
export interface PartWriter {
  /** Bytes that were written so far. */
  readonly bytes: number
  /** Resolves when there is room for more: memory holds two parts. */
  write(chunk: Uint8Array): Promise<void>
  /** Writes the rest as a part, if there is one, and returns all parts. Unless it is the file's last, it needs 5 MiB. */
  end(): Promise<UploadedPart[]>
}

export function partWriter(
  blobs: Pick<BlobStore, 'writePart'>,
  upload: Upload,
  { firstPart, signal }: { firstPart: number; signal: AbortSignal },
): PartWriter {
  const parts: UploadedPart[] = []
  let chunks: Uint8Array[] = []
  let buffered = 0
  let bytes = 0

  async function flush(length: number): Promise<void> {
    signal.throwIfAborted()
    const content = Buffer.concat(chunks)
    const n = firstPart + parts.length
    const { etag } = await blobs.writePart(upload, n, content.subarray(0, length))
    parts.push({ n, etag, bytes: length })
    chunks = content.length > length ? [Buffer.from(content.subarray(length))] : []
    buffered -= length
  }

  return {
    get bytes() {
      return bytes
    },
    write: async (chunk) => {
      chunks.push(chunk)
      buffered += chunk.length
      bytes += chunk.length
      // One part is kept back, so that the last one is never too small.
      while (buffered >= 2 * partBytes) await flush(partBytes)
    },
    end: async () => {
      if (buffered > 0) await flush(buffered)
      return parts
    },
  }
}
