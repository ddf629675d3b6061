// Builds the dashboard: bundles src/ into dist/, which load.ts reads. scripts/setup.mjs runs this file when the sources
// have changed; `npm run dashboard [-- <url of a running Sluice>]` runs it with --watch, which builds again at each
// change of a file and serves the newest build. With --pseudo, the texts are in a pseudo-language and the build is in
// dist-pseudo/.
import { hash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type BuildOptions, type BuildResult, context, type Metafile, type Plugin } from 'esbuild'
import { writeBuiltFile } from '@sluice/runtime/built-file'
import { browsers, browsersText } from './browsers.ts'
import { pseudoTexts } from './pseudo-texts.ts'
import { serveNewest } from './serve-newest.ts'
import { messages } from './src/messages/en.ts'
import { thirdPartyLicences } from './third-party-licences.ts'

const root = fileURLToPath(new URL('.', import.meta.url))
const source = join(root, 'src')
const isPseudo = process.argv.includes('--pseudo')
const distName = isPseudo ? 'dist-pseudo' : 'dist'
const dist = join(root, distName)
/** The folder of a build that is not complete yet: readers of dist/ see a whole build or the one before. */
const unfinished = join(root, `dist.${process.pid}`)

const isWatching = process.argv.includes('--watch')

const common: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  minify: !isWatching,
  write: false,
  metafile: true,
  // Only esbuild's own messages: mistakes in the sources, with their place.
  logLevel: 'warning',
  outdir: join(dist, 'assets'),
  publicPath: '/assets',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  target: Object.entries(browsers).map(([name, version]) => `${name}${version}`),
  define: { 'process.env.NODE_ENV': isWatching ? '"development"' : '"production"' },
  // The licences of all packages are in one file, see thirdPartyLicences.
  legalComments: 'none',
}

/** The page, in one chunk for each dynamic import, its style sheet and its icon. */
const page: BuildOptions = {
  ...common,
  entryPoints: [join(source, 'main.tsx'), join(source, 'styles', 'main.css'), join(source, 'icon.svg')],
  loader: { '.svg': 'copy' },
  format: 'esm',
  splitting: true,
  plugins: [icons(), oneShared(), ...(isPseudo ? [pseudoLanguage()] : [])],
}

/** The script that runs before the first paint: no module, which would run after it. */
const start: BuildOptions = { ...common, entryPoints: [join(source, 'start.ts')], format: 'iife' }

/** The outputs of the builds, `assets/main-<hash>.js`, by the source file that they were made of. */
type Outputs = ReadonlyMap<string, { path: string; metafile: Metafile }>

/**
 * Makes `import house from 'lucide-static/icons/house.svg'` the elements of the drawing, `[['path', { d: '…' }], …]`:
 * no script of the page ever parses markup.
 */
function icons(): Plugin {
  return {
    name: 'icons',
    setup(build) {
      build.onLoad({ filter: /lucide-static[\\/]icons[\\/][\w-]+\.svg$/ }, async ({ path }) => {
        const svg = await readFile(path, 'utf8')
        const attributesOf = (text: string): Record<string, string> =>
          Object.fromEntries(
            [...text.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value]),
          )
        const elements = [...svg.matchAll(/<(\w+)((?:\s+[\w-]+="[^"]*")+)\s*\/>/g)].map(
          ([, tag = '', attributes = '']) => [tag, attributesOf(attributes)] as const,
        )
        if (elements.length === 0) return { errors: [{ text: `${path} has no elements` }] }
        return { contents: JSON.stringify(elements), loader: 'json' }
      })
    },
  }
}

/** Has every module of messages export its texts in the pseudo-language. */
function pseudoLanguage(): Plugin {
  return {
    name: 'pseudo-language',
    setup(build) {
      build.onLoad({ filter: /[\\/]messages(?:[\\/]en)?\.ts$/ }, async ({ path }) => {
        const plain = await readFile(path, 'utf8')
        const [, name] = /^export const (messages|texts) = /m.exec(plain) ?? []
        if (name === undefined) return { errors: [{ text: `${path} exports neither messages nor texts` }] }
        const module = JSON.stringify(join(root, 'pseudo-texts.ts'))
        return {
          contents: `import { pseudoTexts } from ${module}\n${plain.replace(`export const ${name} = `, `const plainTexts = `)}\nexport const ${name} = pseudoTexts(plainTexts)\n`,
          loader: 'ts',
        }
      })
    },
  }
}

/** Folders whose modules many pages use. */
const shared = ['api', 'charts', 'format', 'messages', 'page-components', 'state', 'ui'].map((folder) =>
  join(source, folder),
)
/** Modules of the frame that pages use; the others import the pages. */
const sharedOfFrame = ['filter-dialog', 'freshness', 'shortcuts'].map((name) => join(source, 'app', `${name}.tsx`))
/** Modules that are fetched when they are needed. */
const lazy = /src[\\/](?:pages[\\/].*|charts[\\/](?:plot|world-map))\.tsx$/

/**
 * Has each lazy module import all shared ones. esbuild makes a chunk for each set of pages that share a module: without
 * this, a dozen chunks are fetched before the first number; with it, one.
 */
function oneShared(): Plugin {
  return {
    name: 'one-shared',
    setup(build) {
      build.onLoad({ filter: lazy }, async ({ path }) => {
        const names = await Promise.all(
          shared.map(async (folder) => (await readdir(folder)).map((name) => join(folder, name))),
        )
        const imports = [...names.flat(), ...sharedOfFrame]
          .filter((file) => /\.tsx?$/.test(file) && !file.endsWith('.test.ts') && !lazy.test(file))
          .map((file) => `import ${JSON.stringify(file)}`)
        return { contents: `${await readFile(path, 'utf8')}\n${imports.join('\n')}\n`, loader: 'tsx' }
      })
    },
  }
}

/** Writes the files of finished builds, each also compressed, and index.html with their addresses. */
async function writeDist(builds: readonly BuildResult[]): Promise<void> {
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(join(unfinished, 'assets'), { recursive: true })
  for (const { outputFiles = [] } of builds) {
    await Promise.all(outputFiles.map((file) => writeCompressed(relative(dist, file.path), file.contents)))
  }
  const licences = await writeLicences(builds.map(({ metafile = { inputs: {}, outputs: {} } }) => metafile))
  const template = withTexts(await readFile(join(source, 'index.html'), 'utf8')).replace('{{licences}}', `/${licences}`)
  await writeCompressed('index.html', Buffer.from(withAddresses(template, entriesOf(builds))))
  await rm(dist, { recursive: true, force: true })
  await rename(unfinished, dist)
}

/** Writes the licences of the packages in the builds; returns the path of the file. */
async function writeLicences(metafiles: readonly Metafile[]): Promise<string> {
  const text = Buffer.from(await thirdPartyLicences(root, metafiles))
  const suffix = hash('sha256', text).slice(0, 8).toUpperCase()
  const path = `assets/third-party-licences-${suffix}.txt`
  await writeCompressed(path, text)
  return path
}

function writeCompressed(path: string, contents: Uint8Array): Promise<void> {
  return writeBuiltFile(join(unfinished, path), contents, isWatching)
}

function entriesOf(builds: readonly BuildResult[]): Outputs {
  const entries = new Map<string, { path: string; metafile: Metafile }>()
  for (const { metafile = { inputs: {}, outputs: {} } } of builds) {
    for (const [path, { entryPoint }] of Object.entries(metafile.outputs)) {
      if (entryPoint !== undefined) entries.set(entryPoint, { path, metafile })
    }
  }
  return entries
}

/**
 * index.html with `{{nav live events}}` replaced by these entries of the navigation, without icons and links, and
 * `{{browsers}}` by the names of the oldest browsers.
 */
function withTexts(template: string): string {
  const texts: Readonly<Record<string, unknown>> = isPseudo ? pseudoTexts(messages.nav) : messages.nav
  const textOf = (name: string): string => {
    const text = texts[name]
    if (typeof text !== 'string') throw new Error(`src/index.html names the text ${name}, which is not in messages.nav`)
    return text
  }
  const entryOf = (name: string): string =>
    `<li><span class="nav-link"><svg class="icon" width="16" height="16"></svg>${textOf(name)}</span></li>`
  return template
    .replace('{{browsers}}', browsersText)
    .replaceAll(/\{\{nav ([\w ]+)\}\}/g, (_, names: string) => `<ul>${names.split(' ').map(entryOf).join('')}</ul>`)
    .replaceAll(/\{\{text (\w+)\}\}/g, (_, name: string) => textOf(name))
}

/**
 * index.html with `{{src/main.tsx}}` and the like replaced by the address of what was built of that file, and
 * `{{preload}}` by links to the modules that main.tsx always imports: the browser asks for all at once.
 */
function withAddresses(template: string, entries: Outputs): string {
  const entryOf = (file: string): { path: string; metafile: Metafile } => {
    const entry = entries.get(file)
    if (!entry) throw new Error(`src/index.html names ${file}, which is not built`)
    return entry
  }
  const addressOf = (path: string): string => `/${relative(distName, path)}`
  const { path, metafile } = entryOf('src/main.tsx')
  const preload = staticImports(path, metafile).map((each) => `<link rel="modulepreload" href="${addressOf(each)}">`)
  return template
    .replace('{{preload}}', preload.join('\n    '))
    .replace(/\{\{([\w./-]+)\}\}/g, (_, file: string) => addressOf(entryOf(file).path))
}

/** What an output imports statically, directly or through others. */
function staticImports(path: string, metafile: Metafile): string[] {
  const found = new Set<string>()
  const add = (from: string): void => {
    for (const { path: to, kind } of metafile.outputs[from]?.imports ?? []) {
      if (kind !== 'import-statement' || found.has(to)) continue
      found.add(to)
      add(to)
    }
  }
  add(path)
  return [...found]
}

/** A plugin that writes dist/ each time when every build has ended without a mistake. */
function writeWhenBuilt(builds: number): (index: number) => Plugin {
  const results = new Map<number, BuildResult>()
  return (index) => ({
    name: 'write',
    setup(build) {
      build.onEnd(async (result) => {
        if (result.errors.length > 0) return
        results.set(index, result)
        if (results.size === builds) await writeDist([...results.values()])
      })
    },
  })
}

const write = writeWhenBuilt(2)
const contexts = await Promise.all(
  [page, start].map((options, index) => context({ ...options, plugins: [...(options.plugins ?? []), write(index)] })),
)
try {
  if (isWatching) {
    await Promise.all(contexts.map((each) => each.watch()))
    serveNewest(dist, new URL(process.argv.find((each) => each.startsWith('http')) ?? 'http://localhost:8080'))
  } else await Promise.all(contexts.map((each) => each.rebuild()))
} catch {
  // esbuild has printed the mistakes.
  process.exitCode = 1
} finally {
  if (!isWatching) {
    await Promise.all(contexts.map((each) => each.dispose()))
    await rm(unfinished, { recursive: true, force: true })
  }
}
