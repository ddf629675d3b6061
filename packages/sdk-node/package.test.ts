import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { build } from 'esbuild'
import { packPackage, publintProblems, typesProblems } from '../../tests/support/npm-package.ts'

const here = fileURLToPath(new URL('.', import.meta.url))
const run = promisify(execFile)
let folder: string
let built: string
let packed: string

// The package as npm would publish it, unpacked where another project would have it.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-package-'))
  built = join(folder, 'built')
  await run(process.execPath, [join(here, 'build.ts'), built])
  packed = await packPackage(built, folder)
  const target = join(folder, 'project', 'node_modules', '@sluice')
  await mkdir(target, { recursive: true })
  await run('tar', ['-xzf', packed, '-C', target])
  await symlink(join(target, 'package'), join(target, 'node'))
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

test('the package has no mistake that publint knows', async () => {
  expect(await publintProblems(built)).toEqual([])
})

test('its types are found by every kind of import', async () => {
  expect(await typesProblems(packed)).toEqual([])
})

test.each(['index.js', 'index.cjs'])('%s has at most 8 kB compressed', async (name) => {
  expect(gzipSync(await readFile(join(built, name)), { level: 9 }).length).toBeLessThanOrEqual(8_000)
})

test('it has the licence, a README, and no dependencies', async () => {
  const manifest = JSON.parse(await readFile(join(built, 'package.json'), 'utf8')) as object
  expect(manifest).not.toHaveProperty('dependencies')
  expect(await readdir(built)).toEqual(expect.arrayContaining(['LICENSE', 'README.md']))
})

const use = `
const sluice = createSluice({ url: 'http://127.0.0.1:9', key: 'svc_prod_' + 'x'.repeat(34), site: 'shop' })
const { event_id } = sluice.track('view')
console.log(event_id.length)`

test.each([
  ['import.mjs', `import { createSluice } from '@sluice/node'${use}`],
  ['require.cjs', `const { createSluice } = require('@sluice/node')${use}`],
])('%s loads it, and its timers let the process end', async (name, source) => {
  await writeFile(join(folder, 'project', name), source)
  const { stdout } = await run(process.execPath, [name], { cwd: join(folder, 'project'), timeout: 30_000 })
  expect(stdout).toBe('36\n')
})

test('in one file with OpenTelemetry, without node_modules, it gives an event the trace id', async () => {
  const traceId = 'a'.repeat(32)
  const contents = `const { context, ROOT_CONTEXT, trace } = require('@opentelemetry/api')
    const { createSluice } = require('@sluice/node')
    const active = trace.setSpanContext(ROOT_CONTEXT, { traceId: '${traceId}', spanId: 'b'.repeat(16), traceFlags: 1 })
    context.setGlobalContextManager({ active: () => active })
    globalThis.fetch = async (url, { body }) => {
      console.log(JSON.parse(body).events[0].properties?.trace_id)
      process.exit()
    }
    const sluice = createSluice({ url: 'http://127.0.0.1:9', key: 'svc_prod_x', site: 'shop' })
    sluice.track('view')
    sluice.flush()`
  const outfile = join(folder, 'alone.cjs')
  const stdin = { contents, resolveDir: join(folder, 'project') }
  await build({ stdin, outfile, bundle: true, platform: 'node', nodePaths: [join(here, 'node_modules')] })
  const { stdout } = await run(process.execPath, [outfile], { cwd: folder, timeout: 30_000 })
  expect(stdout).toBe(`${traceId}\n`)
})

test('an onError that rejects is a warning, and does not end the process', async () => {
  const source = `import { createSluice } from '@sluice/node'
    const onError = async () => { throw new Error('late mistake') }
    createSluice({ url: 'http://127.0.0.1:9', key: 'svc_prod_x', site: 'shop', onError }).track('')`
  await writeFile(join(folder, 'project', 'rejects.mjs'), source)
  const { stderr } = await run(process.execPath, ['rejects.mjs'], { cwd: join(folder, 'project') })
  expect(stderr).toContain('SluiceWarning: onError has thrown: Error: late mistake')
})

test.each([
  ['a.mts', 'an ES module'],
  ['a.cts', 'CommonJS'],
])('%s, %s, compiles in strict mode with the declared events', async (name) => {
  const source = `import { createSluice, type Receipt } from '@sluice/node'
    interface Events { order: { total: number }; signed_out: undefined }
    const sluice = createSluice<Events>({ url: '', key: '', site: '' })
    export const receipts: Receipt[] = [sluice.track('order', { total: 1 }), sluice.track('signed_out')]`
  await writeFile(join(folder, 'project', name), source)
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024']
  const compiled = run(join(here, 'node_modules/.bin/tsc'), [...options, name], { cwd: join(folder, 'project') })
  await expect(compiled.catch((error: unknown) => error)).resolves.toMatchObject({ stdout: '' })
})

test('the examples of the documentation compile, without the types of a browser', async () => {
  const page = await readFile(new URL('../../docs/sdk/node.md', import.meta.url), 'utf8')
  const examples = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block = '']) =>
    block.replaceAll(/^.*\/\/ does not compile/gm, '// @ts-expect-error\n$&'),
  )
  expect(examples.length).toBeGreaterThan(3)
  const globals = `declare const createSluice: typeof import('@sluice/node').createSluice
    declare const sluice: import('@sluice/node').Sluice
    declare const [url, key]: string[]
    interface Incoming { headers: NodeJS.Dict<string | string[]>; body: { total: number } }
    interface Outgoing { status(code: number): { json(body: object): void } }
    type Handle = (hook: {
      event: { request: Request }
      resolve(event: { request: Request }): Promise<Response>
    }) => Promise<Response>
    type Handler = (request: Incoming, response: Outgoing, next: () => void) => void
    declare const app: { use(handler: Handler): void; post(path: string, handler: Handler): void }`
  const names = examples.map((_, n) => `example-${n}.mts`)
  for (const [n, example] of examples.entries())
    await writeFile(join(folder, 'project', `example-${n}.mts`), `${example}export {}`)
  await writeFile(join(folder, 'project', 'globals.d.ts'), globals)
  const types = ['--lib', 'es2024', '--types', 'node', '--typeRoots', join(here, '../../node_modules/@types')]
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', ...types]
  const compiled = run(join(here, 'node_modules/.bin/tsc'), [...options, 'globals.d.ts', ...names], {
    cwd: join(folder, 'project'),
  })
  await expect(compiled.catch((error: unknown) => error)).resolves.toMatchObject({ stdout: '' })
})
