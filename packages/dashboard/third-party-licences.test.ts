import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { Metafile } from 'esbuild'
import { loadDashboard } from './load.ts'
import { thirdPartyLicences } from './third-party-licences.ts'

/** The metadata of a build that has put these files into one output. */
const bundleOf = (...files: string[]): Metafile => ({
  inputs: {},
  outputs: {
    'main.js': {
      bytes: 1,
      imports: [],
      exports: [],
      inputs: Object.fromEntries(files.map((file) => [file, { bytesInOutput: 1 }])),
    },
  },
})

test('the build has the licence of each package in it, and the page names the file', () => {
  const { assets, shell } = loadDashboard()
  const [name = '', file] = [...assets].find(([each]) => each.startsWith('third-party-licences-')) ?? []
  const text = file?.encoded.identity.toString('utf8') ?? ''
  for (const each of ['preact', '@tanstack/query-core', 'uplot', 'lucide-static', 'world-atlas'])
    expect(text).toMatch(new RegExp(`^${each} \\d+\\.\\d+\\.\\d+ \\((MIT|ISC)\\)$`, 'm'))
  expect(text).toContain('Copyright (c) 2015-present Jason Miller')
  expect(shell.encoded.identity.toString('utf8')).toContain(`<link rel="license" href="/assets/${name}" />`)
})

test('a package without the text of its licence fails the build, one of several files has all', async () => {
  const root = await mkdtemp(join(tmpdir(), 'licences-'))
  const addPackage = async (name: string, files: Record<string, string>) => {
    const folder = join(root, 'node_modules', name)
    await mkdir(folder, { recursive: true })
    const manifest = JSON.stringify({ name, version: '1.0.0', license: 'MIT' })
    await Promise.all(
      Object.entries({ 'package.json': manifest, ...files }).map(([file, text]) => writeFile(join(folder, file), text)),
    )
  }
  try {
    await addPackage('@scope/both', { LICENSE: 'the licence', 'NOTICE.txt': 'the notice' })
    await addPackage('bare', {})
    const text = await thirdPartyLicences(root, [bundleOf('src/own.ts', 'node_modules/@scope/both/dist/x.js')])
    expect(text).toContain('@scope/both 1.0.0 (MIT)\n\nthe licence\n\nthe notice\n')
    await expect(thirdPartyLicences(root, [bundleOf('node_modules/bare/x.js')])).rejects.toThrow(
      /^bare is bundled, but .* has no text of its licence/,
    )
  } finally {
    await rm(root, { recursive: true })
  }
})
