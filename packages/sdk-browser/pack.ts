// Writes the npm package to dist/npm: a module without dependencies, its types, README and licence. Run it by hand
// before a release, as its test does: node packages/sdk-browser/pack.ts [folder]
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { transpileDeclaration } from 'typescript'
import { bundle } from './bundle.ts'
import manifest from './package.json' with { type: 'json' }

const root = fileURLToPath(new URL('.', import.meta.url))
const folder = process.argv[2] ?? join(root, 'dist', 'npm')

await rm(folder, { recursive: true, force: true })
await mkdir(folder, { recursive: true })
for (const name of ['index', 'types']) {
  const text = await readFile(join(root, 'src', `${name}.ts`), 'utf8')
  const { outputText, diagnostics = [] } = transpileDeclaration(text, { reportDiagnostics: true })
  if (diagnostics.length > 0) throw new Error(`the types of ${name}.ts can't be written by themselves`)
  await writeFile(join(folder, `${name}.d.ts`), outputText.replaceAll(/(from '\.\/\w+)\.ts'/g, "$1.js'"))
}
await writeFile(join(folder, 'index.js'), await bundle('index'))
await writeFile(join(folder, 'sluice.js'), await bundle('snippet'))
await writeFile(join(folder, 'README.md'), await readFile(join(root, 'README.md')))
await writeFile(join(folder, 'LICENSE'), await readFile(join(root, '..', '..', 'LICENSE')))
const { name, version, license } = manifest
const published = {
  name,
  version,
  license,
  description: 'Browser SDK of Sluice, self-hosted event analytics',
  keywords: ['analytics', 'events', 'sluice'],
  type: 'module',
  sideEffects: ['./sluice.js'],
  exports: {
    '.': { types: './index.d.ts', default: './index.js' },
    './sluice.js': './sluice.js',
    './package.json': './package.json',
  },
  types: './index.d.ts',
  files: [] as string[],
}
published.files = (await readdir(folder)).filter((each) => /\.(js|d\.ts)$/.test(each)).sort()
await writeFile(join(folder, 'package.json'), `${JSON.stringify(published, undefined, 2)}\n`)
