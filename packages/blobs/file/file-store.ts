import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { type FileHandle, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { diskSpace } from '@sluice/runtime/disk-space'
import { errorCode } from '@sluice/runtime/errors'
import { makeFolder } from '@sluice/runtime/make-folder'
import { type BlobStore, type MultipartUpload, probeName, type UploadedPart } from '../blob-store.ts'
import { chunksUntilAborted } from '../chunks-until-aborted.ts'
import { blobNotFound, isUploadConflict, rangeNotSatisfiable, uploadConflict } from '../errors.ts'
import { checkName, checkPartNumber, checkParts, checkPrefix, checkRange, totalBytes } from '../rules.ts'
import { onDisk, toDiskError } from './disk-error.ts'
import { append, createFile, renameDurably, syncFolder } from './durable-files.ts'
import { fileSize, listFiles, openFileIfExists, removeFile, streamFile } from './files.ts'
import { uploadsIn } from './uploads.ts'

const copyBytes = 1024 * 1024
/** Content of the file that `check` writes. On a full disk, writing this block fails. */
const probe = Buffer.alloc(4096)

/**
 * Opens a store in a folder, which is created if missing. Processes that see the same folder may share it. A blob is a
 * file with its name. The file is written in another place (uploads.ts), synced and renamed. Completing an upload
 * copies its parts, so it temporarily needs the space of its bytes twice. Throws an AppError when the folder can't be
 * used.
 */
export function openFileStore(folder: string): BlobStore {
  const uploads = uploadsIn(folder)
  try {
    makeFolder(uploads.folder)
  } catch (error) {
    throw toDiskError(folder, error)
  }
  const disk = <T>(step: () => Promise<T>): Promise<T> => onDisk(folder, step)
  const pathOf = (name: string): string => {
    checkName(name)
    return join(folder, name)
  }

  /**
   * Fails while the folder of uploads, which the store has from its opening on, is away with all blobs: a volume that is
   * not mounted leaves an empty folder. Asked before anything counts as missing. A process that was started without the
   * volume has made the folder in the mount point, unless Sluice may not write there.
   */
  const requireMounted = () => stat(uploads.folder)

  const complete = async (upload: MultipartUpload, parts: readonly UploadedPart[]): Promise<void> => {
    const draft = join(uploads.folderOf(upload), `joined-${randomBytes(8).toString('hex')}`)
    try {
      await createFile(draft, (file) => joinParts(file, upload, parts, uploads.folderOf(upload)))
      await renameDurably(draft, pathOf(upload.name))
    } catch (error) {
      const isListed = existsSync(uploads.folderOf(upload))
      if (isListed && !isUploadConflict(error)) throw error
      await requireMounted()
      // Another process has completed it in the meantime, or this process before it was killed, maybe while it removed
      // the parts.
      if ((await fileSize(pathOf(upload.name))) !== totalBytes(parts))
        throw isListed ? error : uploadConflict(upload, 'it was completed or aborted')
    }
    // The upload is completed. If its parts can't be removed now, they are removed as those of an abandoned upload.
    await uploads.remove(upload).catch(() => undefined)
  }

  return {
    write: async (name, content, { signal } = {}) => {
      const path = pathOf(name)
      const upload = await disk(() => uploads.begin(name))
      const draft = join(uploads.folderOf(upload), 'content')
      try {
        const bytes = await createFile(
          draft,
          (file) => writeChunks(file, chunksUntilAborted(content, signal), disk),
          disk,
        )
        signal?.throwIfAborted()
        await disk(() => renameDurably(draft, path))
        return { bytes }
      } finally {
        // A file that can't be removed only takes disk space, and is listed among the uploads.
        await uploads.remove(upload).catch(() => undefined)
      }
    },

    read: async (name, range) => {
      checkRange(range)
      const path = pathOf(name)
      return disk(async () => {
        const file = await openFileIfExists(path)
        if (file === undefined) {
          await requireMounted()
          throw blobNotFound(name)
        }
        try {
          const { size } = await file.stat()
          if (range && range.start >= size) throw rangeNotSatisfiable(name, range)
          const end = Math.min(range?.end ?? Infinity, size - 1)
          return streamFile(folder, file, { start: range?.start ?? 0, end })
        } catch (error) {
          await file.close()
          throw error
        }
      })
    },

    size: async (name) => {
      const path = pathOf(name)
      return disk(async () => {
        const bytes = await fileSize(path)
        if (bytes === undefined) await requireMounted()
        return bytes
      })
    },

    remove: async (names) => {
      const paths = names.map(pathOf)
      await disk(async () => {
        await requireMounted()
        for (const path of paths) await removeFile(path, folder)
      })
    },

    list: async function* (prefix) {
      checkPrefix(prefix)
      try {
        await requireMounted()
        yield* listFiles(folder, prefix)
      } catch (error) {
        throw toDiskError(folder, error)
      }
    },

    createMultipartUpload: async (name) => {
      checkName(name)
      return disk(async () => {
        const upload = await uploads.begin(name)
        await syncFolder(uploads.folder)
        return upload
      })
    },

    uploadPart: async (upload, n, content) => {
      checkPartNumber(n)
      // Each attempt writes its own file, so that a part that a caller knows is never overwritten.
      const etag = randomBytes(8).toString('hex')
      const path = partPath(uploads.folderOf(upload), n, etag)
      return disk(async () => {
        try {
          await createFile(path, (file) => append(file, content))
          await syncFolder(dirname(path))
          return { etag }
        } catch (error) {
          if (errorCode(error) !== 'ENOENT') throw error
          await requireMounted()
          throw uploadConflict(upload, 'it was completed or aborted')
        }
      })
    },

    completeMultipartUpload: async (upload, parts) => {
      checkName(upload.name)
      checkParts(parts)
      await disk(() => complete(upload, parts))
    },

    abortMultipartUpload: async (upload) => {
      checkName(upload.name)
      await disk(async () => {
        await requireMounted()
        await uploads.remove(upload)
      })
    },

    listMultipartUploads: async function* () {
      try {
        yield* uploads.list()
      } catch (error) {
        throw toDiskError(folder, error)
      }
    },

    check: () =>
      disk(async () => {
        const upload = await uploads.begin(probeName)
        try {
          await createFile(join(uploads.folderOf(upload), 'content'), (file) => append(file, probe))
        } finally {
          await uploads.remove(upload)
        }
      }),

    disk: () => disk(async () => diskSpace(await statfs(folder))),

    close: () => Promise.resolve(),
  }
}

/**
 * Appends all chunks and returns the number of bytes. Failures of the disk are converted by `disk`; those of the
 * content are not changed.
 */
async function writeChunks(
  file: FileHandle,
  chunks: AsyncIterable<Uint8Array>,
  disk: (step: () => Promise<void>) => Promise<void>,
): Promise<number> {
  let bytes = 0
  for await (const chunk of chunks) {
    await disk(() => append(file, chunk))
    bytes += chunk.length
  }
  return bytes
}

function partPath(folder: string, n: number, etag: string): string {
  return join(folder, `${n}-${etag}`)
}

/** Appends the parts to `target`. Throws a conflict when one is missing or has another length. */
async function joinParts(
  target: FileHandle,
  upload: MultipartUpload,
  parts: readonly UploadedPart[],
  folder: string,
): Promise<void> {
  const buffer = Buffer.allocUnsafe(copyBytes)
  for (const { n, etag, bytes } of parts) {
    const part = /^[0-9a-f]+$/.test(etag) ? await openFileIfExists(partPath(folder, n, etag)) : undefined
    if (part === undefined) throw uploadConflict(upload, `part ${n} is missing`)
    try {
      let copied = 0
      for (;;) {
        const { bytesRead } = await part.read(buffer, 0, copyBytes)
        if (bytesRead === 0) break
        await append(target, buffer.subarray(0, bytesRead))
        copied += bytesRead
      }
      if (copied !== bytes) throw uploadConflict(upload, `part ${n} has ${copied} bytes, not ${bytes}`)
    } finally {
      await part.close()
    }
  }
}
