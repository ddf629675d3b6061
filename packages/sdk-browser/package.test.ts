import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { packPackage, publintProblems, typesProblems } from '../../tests/support/npm-package.ts'
import { bundle } from './bundle.ts'
import { loadSdk } from './load.ts'
import { type Scripts, writeScripts } from './write-scripts.ts'

const run = promisify(execFile)
const gzipBytes = (text: string | Buffer): number => gzipSync(text, { level: 9 }).length

describe('the size', () => {
  test('of the script for web pages is at most 5 kB', () => {
    const { file } = loadSdk()
    expect(file.encoded.gzip.length).toBeLessThanOrEqual(5_000)
  })

  test('of tracking, pages, queue and sessions alone is at most 2.5 kB', async () => {
    const others = [
      'read-browser',
      'sender',
      'tab-store',
      'device-store',
      'propagate',
      'watch-outbound',
      'read-options',
    ]
    const code = await bundle('core', { external: others.map((name) => `./${name}.ts`) })
    const core = code.replaceAll(/import\{[^}]*\}from"[^"]*";/g, '')
    expect(gzipBytes(core)).toBeLessThanOrEqual(2_500)
  })
})

describe('the scripts of releases', () => {
  let folder: string
  let scripts: Scripts

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-scripts-'))
    mkdirSync(join(folder, 'released'))
    writeFileSync(join(folder, 'released', 'sluice.0.0.9.js'), 'earlier()')
    scripts = {
      latest: { version: '0.1.0', contents: Buffer.from('latest()') },
      released: join(folder, 'released'),
      dist: join(folder, 'dist'),
    }
  })
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true })
  })

  test('are kept beside the latest, as they were released', async () => {
    writeFileSync(join(scripts.released, 'sluice.0.1.0.js'), 'latest()')
    await writeScripts(scripts)
    const { file, released } = loadSdk(scripts.dist)
    expect(file.encoded.identity.toString()).toBe('latest()')
    expect(released.map(({ version }) => version)).toEqual(['0.0.9', '0.1.0'])
    expect(gunzipSync(released[0]?.file.encoded.gzip ?? '').toString()).toBe('earlier()')
  })

  test('may be missing', async () => {
    await writeScripts({ ...scripts, released: join(folder, 'missing') })
    expect(loadSdk(scripts.dist).released).toEqual([])
  })

  test('are not built from other sources', async () => {
    writeFileSync(join(scripts.released, 'sluice.0.1.0.js'), 'before()')
    await expect(writeScripts(scripts)).rejects.toThrow('Raise the version')
  })
})

describe('the package for npm', () => {
  let folder: string
  let packed: string

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-browser-'))
    packed = join(folder, 'package')
    await run(process.execPath, [fileURLToPath(new URL('pack.ts', import.meta.url)), packed])
  })
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true })
  })

  test('has no fault that publint finds', async () => {
    expect(await publintProblems(packed)).toEqual([])
  })

  test('has types that every resolution of modules finds, but that of CommonJS, which the package does not serve', async () => {
    const problems = await typesProblems(await packPackage(packed, folder))
    expect(problems.filter((each) => typeof each === 'string' || each.kind !== 'CJSResolvesToESM')).toEqual([])
  })

  test('depends on nothing, and its modules import nothing', () => {
    expect(JSON.parse(readFileSync(join(packed, 'package.json'), 'utf8'))).not.toHaveProperty('dependencies')
    expect(readFileSync(join(packed, 'index.js'), 'utf8')).not.toMatch(/\bimport\b/)
    expect(readFileSync(join(packed, 'index.d.ts'), 'utf8')).not.toMatch(/@sluice/)
  })

  test('can be imported where there is no page, and does nothing there', async () => {
    const code = `import { createSluice } from ${JSON.stringify(join(packed, 'index.js'))}
      const sluice = createSluice({ url: 'https://in.example', key: 'svc_prod_x', site: 'shop' })
      const events = [sluice.track('x'), sluice.page({ n: 1 }), sluice.identify('ada', { n: 1 })]
      sluice.reset()
      for (const decision of ['pending', 'granted', 'denied']) sluice.consent(decision)
      console.log(JSON.stringify([events.map((event) => typeof event.event_id), await sluice.flush(), sluice.context()]))
      sluice.close()`
    const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', code])
    expect(JSON.parse(stdout)).toEqual([['string', 'string', 'string'], { sent: 0, pending: 0, rejected: 0 }, {}])
    expect(stderr).toBe('')
  })

  test('can be imported, and sends nothing, where there is a page but not all of a browser, as in jsdom', async () => {
    const code = `for (const name of ['TextEncoder', 'Request', 'CompressionStream']) delete globalThis[name]
      const page = { document: { referrer: '', title: '' }, location: { href: 'http://localhost/' }, addEventListener() {} }
      Object.assign(globalThis, page)
      const errors = []
      const options = { url: 'http://127.0.0.1:9', key: 'svc_prod_x', site: 'shop', storage: 'none', autoPage: false }
      const { createSluice } = await import(${JSON.stringify(join(packed, 'index.js'))})
      const sluice = createSluice({ ...options, onError: ({ message }) => errors.push(message) })
      sluice.track('large', { text: 'x'.repeat(9_000) })
      const flushed = await sluice.flush()
      sluice.close()
      console.log(JSON.stringify([errors, flushed]))
      process.exit()`
    const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', code])
    expect(JSON.parse(stdout)).toEqual([[], { sent: 0, pending: 1, rejected: 0 }])
  })

  test.each(['@sluice', '.pnpm/@sluice+browser@0.1.0/node_modules/@sluice'])(
    'can be imported from %s under Jest that runs CommonJS, with the configuration of the documentation',
    async (scope) => {
      const page = readFileSync(new URL('../../docs/sdk/browser.md', import.meta.url), 'utf8')
      const [, pattern = ''] = /^transformIgnorePatterns: \['(.+)'\]$/m.exec(page) ?? []
      const project = mkdtempSync(join(folder, 'jest-'))
      const installed = join(project, 'node_modules', '@sluice', 'browser')
      const stored = join(project, 'node_modules', scope, 'browser')
      cpSync(packed, stored, { recursive: true })
      if (stored !== installed) {
        mkdirSync(dirname(installed))
        symlinkSync(stored, installed)
      }
      writeFileSync(join(project, 'package.json'), '{}')
      writeFileSync(
        join(project, 'imports.test.js'),
        `import { createSluice } from '@sluice/browser'
        test('imports', () => {
          expect(createSluice({ url: '', key: '', site: '' }).track('x').event_id).toHaveLength(36)
        })`,
      )
      const { resolve } = createRequire(import.meta.url)
      const transform = { '\\.js$': [resolve('@swc/jest'), { module: { type: 'commonjs' } }] }
      const config = JSON.stringify({ rootDir: project, transform, transformIgnorePatterns: [pattern] })
      const jest = run(process.execPath, [resolve('jest/bin/jest'), '--ci', '--config', config], { cwd: project })
      const { stderr } = await jest.catch((error: unknown) => error as { stderr: string })
      expect(stderr).toContain('1 passed, 1 total')
    },
  )

  test('checks types of events and their properties, and compiles the examples of the documentation', async () => {
    const page = readFileSync(new URL('../../docs/sdk/browser.md', import.meta.url), 'utf8')
    const blocks = [...page.matchAll(/^```[jt]s\n(.*?)^```$/gms)].map(([, block = '']) => block)
    const examples = blocks.filter((block) => block.includes('createSluice'))
    expect(examples.join()).toMatch(/before:.*before:/s)
    for (const [n, example] of examples.entries())
      writeFileSync(join(packed, `example-${n}.ts`), `${example}export {}\n`)
    writeFileSync(
      join(packed, 'globals.d.ts'),
      "declare const createSluice: typeof import('@sluice/browser').createSluice\n",
    )
    writeFileSync(
      join(packed, 'use.ts'),
      `import { createSluice, type FlushResult, type Receipt, type Sluice } from './index.js'
interface Events { signup: { plan: 'free' | 'team'; seats?: number }; opened: undefined; searched: { text?: string } }
const sluice = createSluice<Events>({ url: '', key: '', site: '', before: (event) => {
  delete event.properties?.email
  if (event.properties) event.properties.plan ??= 'free'
  event.country = 'DE'
  return event.url ? event : null
} })
const { event_id, timestamp }: Receipt = sluice.track('signup', { plan: 'team' })
sluice.track('signup', { plan: 'free', seats: 2 }, { event_id, timestamp })
sluice.track('opened')
sluice.track('searched')
const { sent }: FlushResult = await sluice.flush()
// @ts-expect-error -- no such event
sluice.track('sign-up', { plan: 'team' })
// @ts-expect-error -- a property is missing
sluice.track('signup')
// @ts-expect-error -- another type
sluice.track('signup', { plan: 'team', seats: String(sent) })
// @ts-expect-error -- no such option
createSluice({ url: '', key: '', site: '', storage: 'cookie' })
const any: Sluice = createSluice({ url: '', key: '', site: '' })
any.track('anything', { any: [1, { deep: true }] })
export {}
`,
    )
    const compiler = createRequire(import.meta.url).resolve('typescript/lib/tsc.js')
    const files = ['use.ts', 'globals.d.ts', ...examples.map((_, n) => `example-${n}.ts`)]
    const options = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--ignoreConfig']
    const result = await run(process.execPath, [compiler, ...options, ...files], { cwd: packed }).catch(
      (error: unknown) => error,
    )
    expect(result).toMatchObject({ stdout: '' })
  })
})
