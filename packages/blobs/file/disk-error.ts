import { AppError, errorCode, internalError, unavailable } from '@sluice/runtime/errors'

const full = ['ENOSPC', 'EDQUOT']
const forbidden = ['EACCES', 'EPERM', 'EROFS']
/** Something of another kind lies where a file or a folder belongs. */
const foreign = ['ENOTDIR', 'EISDIR', 'ENOTEMPTY', 'EEXIST']

/** Runs a step on the disk of `folder`; rejects with an AppError that tells operators what to do. */
export async function onDisk<T>(folder: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    throw toDiskError(folder, error)
  }
}

/**
 * The AppError for a failure of the file system; a full disk and a failing one may mend by themselves. AppErrors and
 * the TypeErrors of rules.ts stay as they are.
 */
export function toDiskError(folder: string, error: unknown): Error {
  if (error instanceof AppError || error instanceof TypeError) return error
  const code = errorCode(error) ?? ''
  // Node's message has the code, the call and the path.
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
