import { folderOf } from '@sluice/runtime/folder-of'
import type { BlobStore } from './blob-store.ts'
import type { S3StoreOptions } from './s3/s3-store.ts'

export type OpenBlobStoreOptions = S3StoreOptions

/**
 * Opens the store that `SLUICE_BLOBS_URL` names: `s3://…` (see s3/url.ts), whose server may be unavailable at that
 * time, or `file:<folder>`, relative to the working directory or absolute. Rejects with an Error that names every
 * mistake in the URL, and with an AppError when the folder can't be used.
 */
export async function openBlobStore(url: string, options: OpenBlobStoreOptions = {}): Promise<BlobStore> {
  // An adapter is loaded only when it is used, because the SDK takes time and memory.
  if (url.startsWith('file:')) {
    const { openFileStore } = await import('./file/file-store.ts')
    return openFileStore(folderOf(url))
  }
  if (url.startsWith('s3:')) {
    const [{ openS3Store }, { parseS3Url }] = await Promise.all([import('./s3/s3-store.ts'), import('./s3/url.ts')])
    return openS3Store(parseS3Url(url), options)
  }
  throw new Error('SLUICE_BLOBS_URL: expected s3://bucket/prefix?region=eu-central-1 or file:<folder>')
}
