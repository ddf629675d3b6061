// Builds the npm package: `node packages/sdk-node/build.ts [folder]` writes to dist/, or to the folder, one file each
// for `import` and `require`, their types, and a package.json. `npm pack` in the folder makes the archive.
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type BuildOptions } from 'esbuild'
import ts from 'typescript'
import { eventLimits } from '@sluice/contracts/event-limits'

const root = fileURLToPath(new URL('.', import.meta.url))
const out = resolve(process.argv[2] ?? join(root, 'dist'))
const entry = join(root, 'index.ts')

/**
 * Names of internal properties, which esbuild may shorten: no option or result of the SDK, and no API of Node, has
 * them.
 */
const ownNames = [
  ...Object.keys(eventLimits),
  'afterMs',
  'append',
  'asked',
  'backoff',
  'behindMs',
  'bytesMax',
  'bytes',
  'canRetry',
  'clock',
  'damaged',
  'endAll',
  'eventsMax',
  'fields',
  'file',
  'finish',
  'folder',
  'hasRequeued',
  'hasRoom',
  'isHalfFull',
  'isStopped',
  'isTimeFinal',
  'learn',
  'more',
  'nextSeq',
  'ofRequest',
  'onSettled',
  'onStopped',
  'onTaken',
  'onTimeRefused',
  'post',
  'refused',
  'remove',
  'report',
  'requeue',
  'scope',
  'seq',
  'settle',
  'skipDelays',
  'take',
  'takeOrphan',
  'waiting',
  'wake',
  'wall',
]

const common: BuildOptions = {
  absWorkingDir: root,
  entryPoints: [entry],
  bundle: true,
  minify: true,
  platform: 'node',
  target: 'node22',
  packages: 'bundle',
  logLevel: 'warning',
  legalComments: 'none',
  mangleProps: new RegExp(`^(${ownNames.join('|')})$`),
}

/** The type declarations of index.ts and types.ts, by file name. */
function declarations(): Map<string, string> {
  const emitted = new Map<string, string>()
  const program = ts.createProgram([entry], {
    target: ts.ScriptTarget.ES2024,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: ['node'],
    typeRoots: [fileURLToPath(new URL('../../node_modules/@types', import.meta.url))],
    strict: true,
    skipLibCheck: true,
    verbatimModuleSyntax: true,
    allowImportingTsExtensions: true,
    declaration: true,
    emitDeclarationOnly: true,
    outDir: out,
    rootDir: fileURLToPath(new URL('../', import.meta.url)),
  })
  program.emit(undefined, (path, text) => {
    for (const name of ['index', 'types']) if (path.endsWith(`sdk-node/${name}.d.ts`)) emitted.set(name, text)
  })
  return emitted
}

async function writeDeclarations(): Promise<void> {
  const found = declarations()
  if (found.size !== 2) throw new Error('the declarations of index.ts and types.ts were not made')
  for (const [name, text] of found) {
    for (const kind of ['', 'c']) {
      const imports = text.replaceAll(/(from '\.\/\w+)\.ts'/g, `$1.${kind}js'`)
      await writeFile(join(out, `${name}.d.${kind}ts`), imports)
    }
  }
}

async function writeManifest(): Promise<void> {
  const text = await readFile(join(root, 'package.json'), 'utf8')
  const { name, version, license } = JSON.parse(text) as Record<'name' | 'version' | 'license', string>
  const manifest = {
    name,
    version,
    description: 'Sends events to Sluice, self-hosted event analytics',
    license,
    type: 'module',
    main: './index.cjs',
    types: './index.d.cts',
    exports: {
      '.': {
        import: { types: './index.d.ts', default: './index.js' },
        require: { types: './index.d.cts', default: './index.cjs' },
      },
    },
    sideEffects: false,
    engines: { node: '>=22.2.0' },
    peerDependencies: { '@opentelemetry/api': '^1.3.0' },
    peerDependenciesMeta: { '@opentelemetry/api': { optional: true } },
  }
  await writeFile(join(out, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
}

await rm(out, { recursive: true, force: true })
await mkdir(out, { recursive: true })
await Promise.all([
  build({ ...common, format: 'esm', outfile: join(out, 'index.js') }),
  build({ ...common, format: 'cjs', outfile: join(out, 'index.cjs') }),
  writeDeclarations(),
  writeManifest(),
  copyFile(join(root, 'README.md'), join(out, 'README.md')),
  copyFile(fileURLToPath(new URL('../../LICENSE', import.meta.url)), join(out, 'LICENSE')),
])
