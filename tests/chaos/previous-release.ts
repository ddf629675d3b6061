import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ownRoot } from '../support/node-flags.ts'

/** A clone of the previous release in a temporary folder. */
export interface PreviousRelease {
  commit: string
  root: URL
  remove(): void
}

/**
 * Clones the commit that tests/previous-release names and installs its dependencies, which takes about a minute. Throws
 * when this clone does not contain the commit.
 */
export function clonePreviousRelease(): PreviousRelease {
  const here = fileURLToPath(ownRoot)
  const commit = readFileSync(new URL('tests/previous-release', ownRoot), 'utf8').trim()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-previous-'))
  const remove = (): void => {
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', remove)
  try {
    execFileSync('git', ['clone', '--quiet', '--no-checkout', here, folder])
    execFileSync('git', ['checkout', '--quiet', '--detach', commit], { cwd: folder })
    execFileSync('npm', ['run', '--silent', 'setup'], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  } catch (error) {
    remove()
    throw new Error(
      `The release of tests/previous-release, ${commit}, can't be installed from the history of ${here}.`,
      {
        cause: error,
      },
    )
  }
  return { commit, root: pathToFileURL(`${folder}/`), remove }
}
