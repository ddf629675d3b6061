import { hash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BuiltFile } from '@sluice/runtime/built-file'

/** The built files of the dashboard. */
export interface DashboardFiles {
  /** index.html, the answer to every route of the dashboard. */
  shell: BuiltFile
  /** The files that the shell loads, by name; the names hold a hash of the contents. */
  assets: ReadonlyMap<string, BuiltFile>
}

/** Content types of the built files, by extension. */
export const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
}

/**
 * Reads what build.ts has written. Throws when nothing is built. The images install none of this package's
 * dependencies, so that Node's modules must do.
 */
export function loadDashboard(folder = fileURLToPath(new URL('dist', import.meta.url))): DashboardFiles {
  if (!existsSync(join(folder, 'index.html')))
    throw new Error(`The dashboard is not built: ${folder} has no index.html. Run "npm run setup".`)
  const assets = join(folder, 'assets')
  const names = readdirSync(assets).filter((name) => !/\.(br|gz)$/.test(name))
  return {
    shell: readBuilt(join(folder, 'index.html')),
    assets: new Map(names.map((name) => [name, readBuilt(join(assets, name))])),
  }
}

function readBuilt(path: string): BuiltFile {
  const contentType = contentTypes[extname(path)]
  if (contentType === undefined) throw new Error(`${path} is of a kind that load.ts does not know`)
  const identity = readFileSync(path)
  return {
    contentType,
    hash: hash('sha256', identity, 'base64url'),
    encoded: { identity, gzip: readFileSync(`${path}.gz`), br: readFileSync(`${path}.br`) },
  }
}
