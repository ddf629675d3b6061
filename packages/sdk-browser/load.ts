import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { BuiltFile } from '@sluice/runtime/built-file'
import manifest from './package.json' with { type: 'json' }

/** The script for web pages. */
export interface SdkScript {
  /** The version of the SDK, in the address of the pinned script: `0.1.0`. */
  version: string
  file: BuiltFile
  /** The value of the attribute `integrity`: `sha384-…`. */
  integrity: string
}

/**
 * Reads the output of build.ts. Throws when it does not exist. The images do not contain this package's dependencies, so
 * this file imports only modules of Node.
 */
export function loadSdk(): SdkScript {
  const path = fileURLToPath(new URL('dist/sluice.js', import.meta.url))
  if (!existsSync(path)) throw new Error(`The browser SDK is not built: there is no ${path}. Run "npm run setup".`)
  const identity = readFileSync(path)
  const file = {
    contentType: 'text/javascript; charset=utf-8',
    hash: createHash('sha256').update(identity).digest('base64url'),
    encoded: { identity, gzip: readFileSync(`${path}.gz`), br: readFileSync(`${path}.br`) },
  }
  const hash = createHash('sha384').update(identity).digest('base64')
  return { version: manifest.version, file, integrity: `sha384-${hash}` }
}
