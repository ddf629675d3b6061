import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeBuiltFile } from '@sluice/runtime/built-file'

/** What `writeScripts` writes. */
export interface Scripts {
  /** The script of the present sources, and its version. */
  latest: { version: string; contents: Buffer }
  /** The folder with the scripts of releases, `sluice.<version>.js`, which may be missing. */
  released: string
  /** The folder that is replaced. */
  dist: string
}

/**
 * Writes the latest script and those of all releases, which pages pin by their hash, each with its compressed copies.
 * Throws when the sources of a released version have changed: a page that pins it would refuse the script.
 */
export async function writeScripts({ latest, released, dist }: Scripts): Promise<void> {
  const names = existsSync(released) ? readdirSync(released).filter((name) => name.endsWith('.js')) : []
  const latestName = `sluice.${latest.version}.js`
  if (names.includes(latestName) && !readFileSync(join(released, latestName)).equals(latest.contents)) {
    throw new Error(
      `The sources give another script than the released ${latestName}, which must not change. Raise the version in packages/sdk-browser/package.json.`,
    )
  }
  await rm(dist, { recursive: true, force: true })
  await writeBuiltFile(join(dist, 'sluice.js'), latest.contents)
  for (const name of names) await writeBuiltFile(join(dist, name), readFileSync(join(released, name)))
}
