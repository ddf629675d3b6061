import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { MultipartUpload } from '../blob-store.ts'
import { uploadConflict } from '../errors.ts'
import { checkName } from '../rules.ts'

/** Names of blobs never begin with a dot. */
const uploadsName = '.uploads'

/**
 * The folders of unfinished uploads: `.uploads/<id>~<name>`, where `~` replaces the slashes of the name. They are in
 * the store's own folder, so that a finished file can be renamed to its final place. The id begins with the time in ms.
 */
export interface Uploads {
  /** Creates the folder for an upload; the folder of all uploads must exist. */
  begin(name: string): Promise<MultipartUpload>
  folderOf(upload: MultipartUpload): string
  /** Removes an upload with its files. Does nothing if it does not exist. */
  remove(upload: MultipartUpload): Promise<void>
  list(): AsyncIterable<MultipartUpload & { startedAt: number }>
  /** The folder of all uploads. */
  readonly folder: string
}

/** The uploads of the store whose folder is `root`. */
export function uploadsIn(root: string): Uploads {
  const folder = join(root, uploadsName)
  const folderOf = (upload: MultipartUpload): string => {
    checkName(upload.name)
    // The id comes from a caller's database and becomes part of a path, so its form is checked.
    if (!/^\d+-[0-9a-f]+$/.test(upload.uploadId)) throw uploadConflict(upload, 'it does not exist')
    return join(folder, `${upload.uploadId}~${upload.name.replaceAll('/', '~')}`)
  }
  return {
    folder,
    folderOf,
    begin: async (name) => {
      const upload = { name, uploadId: `${Date.now()}-${randomBytes(8).toString('hex')}` }
      await mkdir(folderOf(upload), { mode: 0o700 })
      return upload
    },
    remove: async (upload) => {
      await rm(folderOf(upload), { recursive: true, force: true })
    },
    list: async function* () {
      for (const entry of await readdir(folder)) {
        const [, uploadId, name] = /^(\d+-[0-9a-f]+)~(.+)$/.exec(entry) ?? []
        if (uploadId === undefined || name === undefined) continue
        yield { name: name.replaceAll('~', '/'), uploadId, startedAt: Number.parseInt(uploadId, 10) }
      }
    },
  }
}
