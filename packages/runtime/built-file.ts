import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

/** A file of a build, for each content coding that browsers accept. */
export interface BuiltFile {
  contentType: string
  /** SHA-256 of the contents in base64url, not quoted. */
  hash: string
  /** The contents by content coding. */
  encoded: Readonly<Record<'identity' | 'gzip' | 'br', Buffer>>
}

const compressBrotli = promisify(brotliCompress)
const compressGzip = promisify(gzip)

/**
 * Writes a file and its compressed copies, `<path>.br` and `<path>.gz`. `isQuick`: compress faster and less, for
 * `--watch`.
 */
export async function writeBuiltFile(path: string, contents: Uint8Array, isQuick = false): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const quality = isQuick ? 1 : constants.BROTLI_MAX_QUALITY
  const [br, gz] = await Promise.all([
    compressBrotli(contents, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }),
    compressGzip(contents, { level: isQuick ? 1 : 9 }),
  ])
  await Promise.all([writeFile(path, contents), writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)])
}
