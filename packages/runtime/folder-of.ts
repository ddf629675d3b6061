import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * The folder of a `file:` URL: `file:data/log` is relative to the working directory, `file:///var/lib/x` is absolute
 * and percent-encoded. Throws when it names none.
 */
export function folderOf(url: string): string {
  const path = url.startsWith('file://') ? fileURLToPath(url) : url.slice('file:'.length)
  if (path === '') throw new Error('names no folder')
  return resolve(path)
}
