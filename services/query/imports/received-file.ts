import type { Readable } from 'node:stream'
import type { BlobStore } from '@sluice/blobs/blob-store'
import { hasFreeSpace } from '@sluice/blobs/disk-space'
import { removeOrLog } from '@sluice/http/remove-or-log'
import type { UploadStore } from '@sluice/http/upload'
import { segmentName } from '@sluice/imports/blob-names'
import { type SegmentedFile, type SegmentLimits, writeSegments } from '@sluice/imports/segments'
import { unavailable } from '@sluice/runtime/errors'

interface ReceivedFileOptions {
  blobs: Pick<BlobStore, 'write' | 'remove' | 'disk'>
  /** For tests; the limits of packages/imports by default. */
  limits?: SegmentLimits | undefined
  log: (fields: Readonly<Record<string, string>>) => void
}

/** The file of one upload, which becomes segments in the blob store while it arrives. */
export class ReceivedFile implements UploadStore<SegmentedFile> {
  readonly #importId: string
  readonly #options: ReceivedFileOptions
  #begunSegments = 0
  #isKept = false

  constructor(importId: string, options: ReceivedFileOptions) {
    this.#importId = importId
    this.#options = options
  }

  /** Throws the errors of `writeSegments`, and 503 while the disk is nearly full; then leaves no blob. */
  async save(file: Readable): Promise<SegmentedFile> {
    const { blobs, limits, log } = this.#options
    try {
      return await writeSegments(
        file,
        async (n, content) => {
          if (!(await hasFreeSpace(blobs, 0))) {
            throw unavailable('the disk of the store of files (SLUICE_BLOBS_URL) is nearly full')
          }
          this.#begunSegments = n + 1
          await blobs.write(segmentName(this.#importId, n), content)
        },
        limits,
      )
    } catch (error) {
      // The client must read why the upload failed, and the operator that blobs are left.
      await removeOrLog(this.remove(), log)
      throw error
    }
  }

  /** From now on `remove` leaves the blobs: the import may exist. */
  keep(): void {
    this.#isKept = true
  }

  async remove(): Promise<void> {
    if (this.#isKept) return
    // A segment whose writing failed may be stored nevertheless.
    const names = Array.from({ length: this.#begunSegments }, (_, n) => segmentName(this.#importId, n))
    await this.#options.blobs.remove(names)
  }
}
