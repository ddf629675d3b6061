import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { checkPackage, createPackageFromTarballData, type Problem } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'

const run = promisify(execFile)

/**
 * Packs the package in `folder` as npm would publish it. Resolves with the path of the file, in the folder `target`.
 */
export async function packPackage(folder: string, target: string): Promise<string> {
  const { stdout } = await run('npm', ['pack', '--silent', '--pack-destination', target], { cwd: folder })
  return join(target, stdout.trim())
}

/** What publint finds wrong with the package in `folder`, in its own sentences. */
export async function publintProblems(folder: string): Promise<(string | undefined)[]> {
  const { messages, pkg } = await publint({ pkgDir: folder, strict: true })
  return messages.map((message) => formatMessage(message, pkg as Record<string, unknown>))
}

/** The ways to import a packed package that do not find its types. */
export async function typesProblems(packed: string): Promise<readonly (Problem | string)[]> {
  const tarball = createPackageFromTarballData(await readFile(packed))
  const result = await checkPackage(tarball, { entrypoints: ['.'] })
  return 'problems' in result ? result.problems : ['there are no types']
}
