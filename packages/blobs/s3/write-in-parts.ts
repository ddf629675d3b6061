import type { MultipartUpload, UploadedPart } from '../blob-store.ts'

/** The operations of a store that `writeInParts` needs. */
interface PartWriter {
  begin(): Promise<MultipartUpload>
  send(upload: MultipartUpload, n: number, content: Buffer): Promise<{ etag: string }>
  complete(upload: MultipartUpload, parts: readonly UploadedPart[]): Promise<void>
  abort(upload: MultipartUpload): Promise<void>
}

/**
 * Writes the two parts that were already read and all other parts as one upload, and returns the number of bytes. A
 * part is sent while the next one is read. If anything fails, the upload is aborted, and the promise rejects with the
 * first failure.
 */
export async function writeInParts(
  writer: PartWriter,
  gathered: readonly [Buffer, Buffer],
  others: AsyncGenerator<Buffer, void, undefined>,
): Promise<number> {
  const upload = await writer.begin()
  const written: UploadedPart[] = []
  let bytes = 0
  const send = async (content: Buffer): Promise<void> => {
    const n = written.length + 1
    const { etag } = await writer.send(upload, n, content)
    written.push({ n, etag, bytes: content.length })
    bytes += content.length
  }
  let sending = Promise.resolve()
  try {
    const [first, second] = gathered
    await send(first)
    for (let content: Buffer | undefined = second; content !== undefined;) {
      sending = send(content)
      const [next] = await Promise.all([others.next(), sending])
      content = next.done === true ? undefined : next.value
    }
    await writer.complete(upload, written)
    return bytes
  } catch (error) {
    others.return().catch(() => undefined)
    // A part that arrives after the abort would be kept.
    await Promise.allSettled([sending])
    // If the upload can't be aborted now, it remains listed among the uploads.
    await writer.abort(upload).catch(() => undefined)
    throw error
  }
}
