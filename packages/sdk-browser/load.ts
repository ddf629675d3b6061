import { hash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BuiltFile } from '@sluice/runtime/built-file'
import manifest from './package.json' with { type: 'json' }

/** A version of the script for web pages. */
export interface SdkVersion {
  /** As in the address of the pinned script: `0.1.0`. */
  version: string
  file: BuiltFile
}

/** The script for web pages. */
export interface SdkScript extends SdkVersion {
  /** The value of the attribute `integrity`: `sha384-…`. */
  integrity: string
  /** The scripts of all releases: that of the present version is one of them once it is released. */
  released: SdkVersion[]
}

/**
 * Reads the output of build.ts. Throws when it does not exist. The images do not contain this package's dependencies,
 * so this file imports only modules of Node.
 */
export function loadSdk(dist = fileURLToPath(new URL('dist', import.meta.url))): SdkScript {
  const path = join(dist, 'sluice.js')
  if (!existsSync(path)) throw new Error(`The browser SDK is not built: there is no ${path}. Run "npm run setup".`)
  const file = readScript(path)
  const integrity = `sha384-${hash('sha384', file.encoded.identity, 'base64')}`
  const released = readdirSync(dist).flatMap((name) => {
    const version = /^sluice\.(.+)\.js$/.exec(name)?.[1]
    return version === undefined ? [] : [{ version, file: readScript(join(dist, name)) }]
  })
  return { version: manifest.version, file, integrity, released }
}

function readScript(path: string): BuiltFile {
  const identity = readFileSync(path)
  return {
    contentType: 'text/javascript; charset=utf-8',
    hash: hash('sha256', identity, 'base64url'),
    encoded: { identity, gzip: readFileSync(`${path}.gz`), br: readFileSync(`${path}.br`) },
  }
}
