import type { Readable } from 'node:stream'
import { AppError } from '@sluice/runtime/errors'
import type { BlobStore } from './blob-store.ts'

/** Opens a blob; undefined when there is no blob with that name. */
export async function openIfExists(store: Pick<BlobStore, 'read'>, name: string): Promise<Readable | undefined> {
  try {
    return await store.read(name)
  } catch (error) {
    if (error instanceof AppError && error.code === 'not_found') return undefined
    throw error
  }
}
