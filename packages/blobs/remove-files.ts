import type { BlobStore, Upload } from './blob-store.ts'

/** Blobs and uploads that belong together, for example the files of a site's exports. */
export interface Files {
  objects: string[]
  uploads: Upload[]
}

/** Removes blobs and drops uploads. Missing ones are ignored. Throws the errors of the store. */
export async function removeFiles(
  blobs: Pick<BlobStore, 'remove' | 'abortParts'>,
  { objects, uploads }: Files,
): Promise<void> {
  await blobs.remove(objects)
  for (const upload of uploads) await blobs.abortParts(upload)
}
