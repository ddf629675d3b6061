import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Metafile } from 'esbuild'

/** The members of package.json that the notice contains. */
interface Manifest {
  name: string
  version: string
  license?: string
}

const isLicence = (name: string): boolean => /^(licen[cs]e|copying|notice)/i.test(name)

/** The folder of the package that a file belongs to; undefined for files of this repository. */
function packageOf(path: string): string | undefined {
  return /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0]
}

/**
 * The licences and notices of all packages whose code or data is in builds of esbuild, as one text, sorted by name: the
 * licences require that copies include them. Paths in the metafiles are relative to `root`. Throws for a package
 * without the text of its licence.
 */
export async function thirdPartyLicences(root: string, metafiles: readonly Metafile[]): Promise<string> {
  const inputs = metafiles.flatMap(({ outputs }) => Object.values(outputs).flatMap((each) => Object.keys(each.inputs)))
  const folders = [...new Set(inputs.map(packageOf).filter((folder) => folder !== undefined))]
  const notices = await Promise.all(folders.map((folder) => noticeOf(join(root, folder))))
  return [
    'The dashboard of Sluice contains code and data of these packages.\n',
    ...notices.sort((one, other) => (one < other ? -1 : 1)),
  ].join(`\n${'-'.repeat(80)}\n\n`)
}

async function noticeOf(folder: string): Promise<string> {
  const { name, version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest
  const files = (await readdir(folder)).filter(isLicence).sort()
  if (files.length === 0) throw new Error(`${name} is bundled, but ${folder} has no text of its licence`)
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  return `${name} ${version} (${license ?? 'see below'})\n\n${texts.map((text) => text.trim()).join('\n\n')}\n`
}
