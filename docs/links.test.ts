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

/** The files and folders that the links of a page name. */
function linkedFrom(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path = '']) => join(dirname(page), path))
}

test('every page that a page links to or that the code cites exists', () => {
  const missing: string[] = []
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8')
    const linked = file.endsWith('.md') ? linkedFrom(file) : []
    const cited = [...text.matchAll(/\bdocs\/[\w/-]+\.md\b/g)].map(([path]) => path)
    for (const path of [...linked, ...cited]) if (!existsSync(join(root, path))) missing.push(`${file}: ${path}`)
  }
  expect(missing).toEqual([])
})

test('another page links to every page for users and operators', () => {
  const pages = files.filter((file) => file.endsWith('.md'))
  const linked = new Set(pages.flatMap((page) => linkedFrom(page).filter((path) => path !== page)))
  const readers = pages.filter((page) => !/^(README\.md$|\.github\/|packages\/|tests\/)/.test(page))
  // A link to a folder shows its README.md.
  const isLinked = (page: string) => linked.has(page) || linked.has(page.replace(/README\.md$/, ''))
  expect(readers.length).toBeGreaterThan(50)
  expect(readers.filter((page) => !isLinked(page))).toEqual([])
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
