import type { BlobStore, Upload, UploadedPart } from '@sluice/blobs/blob-store'

/** Bytes of a part. Stores take 10,000 parts of 5 MiB at least, so a file may have 80 GB. */
export const partBytes = 8 * 1024 * 1024

/** Stores take no smaller one but as the last. */
const partBytesMin = 5 * 1024 * 1024

/** Writes bytes as parts of an upload. */
export interface PartWriter {
  /** Bytes that were written so far. */
  readonly bytes: number
  /** Resolves when there is room for more: memory holds less than two parts. */
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
  const chunks: Uint8Array[] = []
  let buffered = 0
  let bytes = 0

  /** Takes the first bytes off the chunks. Only they are copied. */
  function take(length: number): Uint8Array {
    const taken: Uint8Array[] = []
    let missing = length
    while (missing > 0) {
      const [chunk = new Uint8Array(missing)] = chunks.splice(0, 1)
      taken.push(chunk.subarray(0, missing))
      if (chunk.length > missing) chunks.unshift(chunk.subarray(missing))
      missing -= Math.min(missing, chunk.length)
    }
    buffered -= length
    return Buffer.concat(taken, length)
  }

  async function flush(length: number): Promise<void> {
    signal.throwIfAborted()
    const n = firstPart + parts.length
    const { etag } = await blobs.writePart(upload, n, take(length))
    parts.push({ n, etag, bytes: length })
  }

  return {
    get bytes() {
      return bytes
    },
    write: async (chunk) => {
      chunks.push(chunk)
      buffered += chunk.length
      bytes += chunk.length
      // So much is kept back that the last part is never too small.
      while (buffered >= partBytes + partBytesMin) await flush(partBytes)
    },
    end: async () => {
      if (buffered > 0) await flush(buffered)
      return parts
    },
  }
}
