import { AppError, errorCode, internalError, unavailable } from '@sluice/runtime/errors'

const full = ['ENOSPC', 'EDQUOT']
const forbidden = ['EACCES', 'EPERM', 'EROFS']
/** Codes when a file is found instead of a folder, or a folder instead of a file. */
const foreign = ['ENOTDIR', 'EISDIR', 'ENOTEMPTY', 'EEXIST']

/** Runs a step on the disk of `folder`. Rejects with an AppError that tells operators what to do. */
export async function onDisk<T>(folder: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    throw toDiskError(folder, error)
  }
}

/**
 * The AppError for a failure of the file system. Failures of a full or failing disk are retryable, because they may
 * end. AppErrors and the TypeErrors of rules.ts are returned unchanged.
 */
export function toDiskError(folder: string, error: unknown): Error {
  if (error instanceof AppError || error instanceof TypeError) return error
  const code = errorCode(error) ?? ''
  // Node's message contains the code, the system call and the path.
  const message = typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : code
  if (full.includes(code)) return unavailable(`The disk of ${folder} (SLUICE_BLOBS_URL) is full: ${message}`, error)
  if (forbidden.includes(code)) {
    return internalError(`Sluice may not write to the folder of SLUICE_BLOBS_URL: ${message}`, error)
  }
  if (foreign.includes(code)) {
    return internalError(`The folder of SLUICE_BLOBS_URL holds something else where a blob belongs: ${message}`, error)
  }
  return unavailable(`The folder of SLUICE_BLOBS_URL can't be used: ${message}`, error)
}
