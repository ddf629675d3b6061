import { AppError } from '@sluice/runtime/errors'
import type { ByteRange, MultipartUpload } from './blob-store.ts'

/** The AppError `not_found` for a blob that does not exist. */
export function blobNotFound(name: string): AppError {
  return new AppError('not_found', { message: 'File not found', internal: `There is no blob ${name}` })
}

/** The AppError `range_not_satisfiable` for a range that begins at the end of the blob or later. */
export function rangeNotSatisfiable(name: string, { start }: ByteRange): AppError {
  return new AppError('range_not_satisfiable', {
    message: 'Range not satisfiable',
    internal: `The blob ${name} ends before byte ${start}`,
  })
}

/** The error of an upload that was completed or aborted, or that lacks a part. The caller must write the blob again. */
export function uploadConflict({ name, uploadId }: MultipartUpload, what: string): AppError {
  return new AppError('conflict', {
    message: 'The file can no longer be completed',
    internal: `Upload ${uploadId} of the blob ${name}: ${what}`,
  })
}

/** Whether an operation of a blob store failed with `uploadConflict`. The stores throw no other `conflict`. */
export function isUploadConflict(error: unknown): error is AppError {
  return error instanceof AppError && error.code === 'conflict'
}
