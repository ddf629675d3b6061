import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

const root = fileURLToPath(new URL('../', import.meta.url))
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /\.(md|ts|sql|yaml)$/.test(file) && existsSync(join(root, file)))

test('every page that a page links to or that the code cites exists', () => {
  const missing: string[] = []
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8')
    const linked = file.endsWith('.md')
      ? [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path = '']) => join(dirname(file), path))
      : []
    const cited = [...text.matchAll(/\bdocs\/[\w/-]+\.md\b/g)].map(([path]) => path)
    for (const path of [...linked, ...cited]) if (!existsSync(join(root, path))) missing.push(`${file}: ${path}`)
  }
  expect(missing).toEqual([])
})

test('every file and folder that the pages for contributors name is there', () => {
  const pages = ['CONTRIBUTING.md', 'docs/architecture.md', 'docs/decisions/015-layout.md', 'tests/README.md']
  const named = pages.flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/`((?:packages|services|tests|scripts)\/[\w./-]+)`/g)].map(
      ([, path = '']) => ({ page, path }),
    ),
  )
  expect(named.length).toBeGreaterThan(30)
  expect(named.filter(({ path }) => !existsSync(join(root, path)))).toEqual([])
})
