import type { BlobStore, MultipartUpload } from './blob-store.ts'

/** Blobs and uploads that belong together, for example the files of a site's exports. */
export interface Files {
  objects: string[]
  uploads: MultipartUpload[]
}

/**
 * Drops uploads and removes blobs. Missing ones are ignored. An upload that another process is completing leaves no blob.
 * Throws the errors of the store.
 */
export async function removeFiles(
  blobs: Pick<BlobStore, 'remove' | 'abortMultipartUpload'>,
  { objects, uploads }: Files,
): Promise<void> {
  // In the other order, an upload could be completed between the two.
  for (const upload of uploads) await blobs.abortMultipartUpload(upload)
  await blobs.remove(objects)
}
