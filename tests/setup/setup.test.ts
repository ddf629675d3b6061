import { type ChildProcess, spawn } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'

const installCall = '--yes pnpm@1.2.3 install --frozen-lockfile\n'
const firstStartLine = 'Installing dependencies (first start, about 1.2 GB of disk)…\n'
const changeLine = 'Installing dependencies (they have changed)…\n'

let root: string
let stampFile: string
let callsFile: string
let path: string

/** A workspace with the real script and an `npx` that records how it was called, then does what `installer` says. */
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sluice-setup-'))
  stampFile = join(root, 'node_modules/.sluice-setup')
  callsFile = join(root, 'calls')
  path = `${join(root, 'bin')}${delimiter}${process.env.PATH ?? ''}`
  for (const folder of ['bin', 'scripts', 'services/gateway', 'packages', 'docs']) {
    mkdirSync(join(root, folder), { recursive: true })
  }
  cpSync(fileURLToPath(new URL('../../scripts/setup.mjs', import.meta.url)), join(root, 'scripts/setup.mjs'))
  writeFileSync(join(root, 'package.json'), '{ "packageManager": "pnpm@1.2.3" }')
  writeFileSync(join(root, 'pnpm-lock.yaml'), 'lockfileVersion: 9\n')
  writeFileSync(
    join(root, 'pnpm-workspace.yaml'),
    'packages:\n  - services/*\n  - packages/*\n  - docs\n\nsaveExact: true\n',
  )
  writeFileSync(join(root, 'services/gateway/package.json'), '{}')
  writeFileSync(join(root, 'docs/package.json'), '{}')
  setInstaller('mkdir -p node_modules')
})

afterEach(() => {
  rmSync(root, { recursive: true, force: true })
})

function setInstaller(script: string): void {
  const file = join(root, 'bin/npx')
  writeFileSync(file, `#!/bin/sh\necho "$@" >> calls\n${script}\n`)
  chmodSync(file, 0o755)
}

interface SetupRun {
  process: ChildProcess
  ended: Promise<{ code: number | null; stderr: string; installs: string }>
}

/** Starts the script. `installs` are the calls of `npx` that this run made. */
function startSetup(...args: string[]): SetupRun {
  rmSync(callsFile, { force: true })
  const child = spawn(process.execPath, [join(root, 'scripts/setup.mjs'), ...args], {
    cwd: tmpdir(),
    env: { PATH: path },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString('utf8')
  })
  const ended = new Promise<Awaited<SetupRun['ended']>>((resolve) => {
    child.once('close', (code) => {
      resolve({ code, stderr, installs: existsSync(callsFile) ? readFileSync(callsFile, 'utf8') : '' })
    })
  })
  return { process: child, ended }
}

function runSetup(...args: string[]): SetupRun['ended'] {
  return startSetup(...args).ended
}

test('installs once: the second run does and prints nothing', async () => {
  expect(await runSetup()).toStrictEqual({ code: 0, stderr: firstStartLine, installs: installCall })
  expect(await runSetup()).toStrictEqual({ code: 0, stderr: '', installs: '' })
})

test.each([
  ['the lock file', 'pnpm-lock.yaml'],
  ['the settings of the workspace', 'pnpm-workspace.yaml'],
  ['the package.json of the root', 'package.json'],
  ['the package.json of a package', 'services/gateway/package.json'],
  ['the package.json of a folder that the workspace lists by name', 'docs/package.json'],
])('installs again after a change of %s', async (_, file) => {
  await runSetup()
  appendFileSync(join(root, file), '\n')
  expect(await runSetup()).toStrictEqual({ code: 0, stderr: changeLine, installs: installCall })
  expect(await runSetup()).toMatchObject({ installs: '' })
})

test('installs again when a package is added', async () => {
  await runSetup()
  mkdirSync(join(root, 'packages/http'))
  writeFileSync(join(root, 'packages/http/package.json'), '{}')
  expect(await runSetup()).toMatchObject({ installs: installCall })
})

test('installs again when node_modules is gone', async () => {
  await runSetup()
  rmSync(join(root, 'node_modules'), { recursive: true })
  expect(await runSetup()).toStrictEqual({ code: 0, stderr: firstStartLine, installs: installCall })
})

test('--force empties every node_modules and installs, even when nothing has changed', async () => {
  await runSetup()
  const leftovers = ['node_modules/broken', 'services/gateway/node_modules/broken'].map((path) => join(root, path))
  for (const path of leftovers) mkdirSync(path, { recursive: true })
  expect(await runSetup('--force')).toMatchObject({ code: 0, installs: installCall })
  expect(leftovers.filter((path) => existsSync(path))).toStrictEqual([])
  expect(await runSetup()).toMatchObject({ installs: '' })
})

describe('an installation that fails', () => {
  test('prints what the installer said and what to do, and exits with 1', async () => {
    setInstaller('echo ERR_PNPM_FETCH_404; echo no disk >&2; exit 7')
    const { code, stderr } = await runSetup()
    expect(code).toBe(1)
    expect(stderr).toContain('ERR_PNPM_FETCH_404\n')
    expect(stderr).toContain('no disk\n')
    expect(stderr).toContain('could not be installed (npx ended with code 7)')
    expect(stderr).toContain('npm run setup -- --force')
  })

  test('leaves no stamp, not even the former one, so that the next run tries again', async () => {
    await runSetup()
    appendFileSync(join(root, 'pnpm-lock.yaml'), '\n')
    setInstaller('exit 1')
    expect(await runSetup()).toMatchObject({ code: 1 })
    expect(existsSync(stampFile)).toBe(false)
    setInstaller('true')
    expect(await runSetup()).toMatchObject({ code: 0, installs: installCall })
  })

  test('is named when there is no npx', async () => {
    path = join(root, 'docs')
    const { code, stderr } = await runSetup()
    expect(code).toBe(1)
    expect(stderr).toContain('could not be installed (spawn npx ENOENT)')
  })
})

test('an installation that is interrupted leaves no stamp', async () => {
  setInstaller('exec tail -f /dev/null')
  const run = startSetup()
  await waitUntil(() => existsSync(callsFile), 'the installer runs')
  run.process.kill('SIGTERM')
  expect(await run.ended).toMatchObject({ code: 143 })
  expect(existsSync(stampFile)).toBe(false)
  setInstaller('true')
  expect(await runSetup()).toMatchObject({ code: 0, installs: installCall })
})

describe('the dashboard', () => {
  const main = 'packages/dashboard/src/main.tsx'
  let builds: string

  /** A dashboard whose build records that it ran, then does what `script` says. */
  function setBuild(script: string): void {
    const node = join(root, 'node_modules/.bin/node')
    writeFileSync(node, `#!/bin/sh\necho "$@" >> ${builds}\n${script}\n`)
    chmodSync(node, 0o755)
  }

  function countBuilds(): number {
    return existsSync(builds) ? readFileSync(builds, 'utf8').split('\n').length - 1 : 0
  }

  beforeEach(() => {
    builds = join(root, 'builds')
    for (const folder of ['node_modules/.bin', 'packages/dashboard/src/pages', 'packages/contracts']) {
      mkdirSync(join(root, folder), { recursive: true })
    }
    for (const file of ['packages/dashboard/build.ts', main, 'packages/contracts/stats.ts']) {
      writeFileSync(join(root, file), '// source\n')
    }
    setBuild('mkdir -p packages/dashboard/dist')
  })

  test('is built once, silently, by the Node that was installed', async () => {
    expect(await runSetup()).toMatchObject({ code: 0, stderr: firstStartLine })
    expect(readFileSync(builds, 'utf8')).toBe(`${join(root, 'packages/dashboard/build.ts')}\n`)
    expect(await runSetup()).toStrictEqual({ code: 0, stderr: '', installs: '' })
    expect(countBuilds()).toBe(1)
  })

  test.each([
    ['a source', main],
    ['a new source', 'packages/dashboard/src/pages/new.tsx'],
    ['the build itself', 'packages/dashboard/build.ts'],
    ['what the dashboard imports', 'packages/contracts/stats.ts'],
    ['the versions of packages', 'pnpm-lock.yaml'],
  ])('is built again after a change of %s', async (_, file) => {
    await runSetup()
    appendFileSync(join(root, file), '\n')
    expect(await runSetup()).toMatchObject({ code: 0 })
    expect(countBuilds()).toBe(2)
  })

  test('is built again when its files are gone, and not for a change of a test or of a built file', async () => {
    await runSetup()
    writeFileSync(join(root, 'packages/dashboard/src/pages/live.test.ts'), '// test\n')
    writeFileSync(join(root, 'packages/dashboard/dist/index.html'), 'built')
    await runSetup()
    expect(countBuilds()).toBe(1)
    rmSync(join(root, 'packages/dashboard/dist'), { recursive: true })
    await runSetup()
    expect(countBuilds()).toBe(2)
  })

  test('that can not be built is named with what the build said, and is tried again', async () => {
    setBuild('echo "main.tsx:1: a mistake" >&2; exit 1')
    const { code, stderr } = await runSetup()
    expect(code).toBe(1)
    expect(stderr).toContain('main.tsx:1: a mistake\n')
    expect(stderr).toContain('The dashboard could not be built')
    setBuild('mkdir -p packages/dashboard/dist')
    expect(await runSetup()).toStrictEqual({ code: 0, stderr: '', installs: '' })
    expect(countBuilds()).toBe(2)
  })
})
