// Installs the dependencies and builds the dashboard and the browser SDK when they are missing or have changed, and
// does nothing otherwise. Every script of package.json runs this file first, through scripts/prepare.sh, and nothing
// may be installed yet. So it is plain JavaScript for Node 18 and imports only modules of Node.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath, URL } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Written after a complete installation: a hash of everything that decides what is installed. */
const stampFile = join(root, 'node_modules', '.sluice-setup')
/** The builds for browsers: the folder of each build.ts, and the folders of its sources. */
const builds = [
  { name: 'dashboard', folder: 'packages/dashboard', sources: ['packages/dashboard', 'packages/contracts'] },
  { name: 'browser SDK', folder: 'packages/sdk-browser', sources: ['packages/sdk-browser', 'packages/sdk-core'] },
]

const isForced = process.argv.includes('--force')
const wanted = hashOfInputs()
const installed = readStamp(stampFile)
if (isForced || installed !== wanted) await installAndStamp()
for (const each of builds) if (existsSync(join(root, each.folder, 'build.ts'))) await build(each)

async function installAndStamp() {
  const occasion = installed === undefined ? 'first start, about 1.2 GB of disk' : 'they have changed'
  process.stderr.write(`Installing dependencies (${isForced ? 'from scratch' : occasion})…\n`)
  // An interrupted installation must not look like a complete one.
  rmSync(stampFile, { force: true })
  if (isForced)
    for (const folder of packageFolders()) rmSync(join(folder, 'node_modules'), { recursive: true, force: true })

  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const { failure, output } = await run('npx', ['--yes', packageManager, 'install', '--frozen-lockfile'])
  if (failure !== undefined) {
    process.stderr.write(
      `${output}\nThe dependencies could not be installed (${failure}); the reason is above. Check the network, npm's ` +
        'registry settings and the free disk space, then repeat the command. "npm run setup -- --force" starts afresh.\n',
    )
    process.exit(1)
  }
  mkdirSync(join(root, 'node_modules'), { recursive: true })
  writeStamp(stampFile, wanted)
}

async function build({ name, folder, sources }) {
  const hash = hashOfSources(sources)
  // Written after a complete build: a hash of its sources.
  const builtStampFile = join(root, folder, 'dist', '.sources')
  if (!isForced && readStamp(builtStampFile) === hash) return
  // The Node that was installed runs TypeScript; that of the shell may be older.
  const binaries = join(root, 'node_modules', '.bin')
  const { failure, output } = await run(join(binaries, 'node'), [join(root, folder, 'build.ts')])
  if (failure !== undefined) {
    process.stderr.write(
      `${output}\nThe ${name} could not be built (${failure}); the reason is above. Undo the last change of ` +
        `${folder}, or mend it; "npm run setup -- --force" installs and builds afresh.\n`,
    )
    process.exit(1)
  }
  writeStamp(builtStampFile, hash)
}

/** Runs a program in the root folder. Its output is kept for the case of a failure; signals are passed on to it. */
function run(command, args) {
  return new Promise((resolve) => {
    // Before the program starts: without a handler, a signal would end this process and leave the program running.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
      process.once(signal, () => {
        child.kill(signal)
        process.exit(128 + constants.signals[signal])
      })
    }
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    child.once('error', (error) => resolve({ failure: error.message, output }))
    child.once('close', (code, signal) =>
      resolve({ failure: code === 0 ? undefined : `${command} ended with ${signal ?? `code ${code}`}`, output }),
    )
  })
}

/** The inputs of a build: its sources, the code that writes the output, and the versions of the packages. */
function hashOfSources(folders) {
  const hash = createHash('sha256').update(wanted)
  const writer = join(root, 'packages', 'runtime', 'built-file.ts')
  const files = folders.flatMap((folder) => filesBelow(join(root, folder)))
  for (const file of existsSync(writer) ? [...files, writer] : files) {
    const bytes = readFileSync(file)
    hash.update(`${file.slice(root.length)} ${bytes.length}\n`).update(bytes)
  }
  return hash.digest('hex')
}

function filesBelow(folder) {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name)
    // Editors lock a file by a symbolic link that leads nowhere.
    if (!entry.isDirectory()) return !entry.isFile() || entry.name.includes('.test.') ? [] : [path]
    return entry.name === 'node_modules' || entry.name.startsWith('dist') ? [] : filesBelow(path)
  })
}

/** The lock file, the settings of the workspace, every package.json, and the platform, which selects the binaries. */
function hashOfInputs() {
  const hash = createHash('sha256').update(`${process.platform} ${process.arch}\n`)
  const manifests = packageFolders().map((folder) => join(folder, 'package.json'))
  for (const file of [join(root, 'pnpm-lock.yaml'), join(root, 'pnpm-workspace.yaml'), ...manifests]) {
    const text = readFileSync(file)
    hash.update(`${file.slice(root.length)} ${text.length}\n`).update(text)
  }
  return hash.digest('hex')
}

/** The root and the folders that the `packages` list of pnpm-workspace.yaml names: `<folder>` or `<folder>/*`. */
function packageFolders() {
  const workspace = readFileSync(join(root, 'pnpm-workspace.yaml'), 'utf8')
  const [, list = ''] = /^packages:\r?\n((?: +- .*\r?\n)*)/m.exec(workspace) ?? []
  const patterns = [...list.matchAll(/- (\S+)/g)].map(([, pattern]) => join(root, pattern))
  const folders = patterns.flatMap((pattern) => {
    if (!pattern.endsWith('*')) return [pattern]
    const parent = pattern.slice(0, -1)
    return readdirSync(parent)
      .sort()
      .map((name) => join(parent, name))
  })
  return [root, ...folders].filter((folder) => existsSync(join(folder, 'package.json')))
}

function readStamp(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** Writes a temporary file and renames it, because an incomplete stamp would be wrong. */
function writeStamp(file, text) {
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
}
