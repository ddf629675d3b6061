import { expect, test } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../', import.meta.url))
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /\.(md|ts|sql|yaml)$/.test(file) && existsSync(join(root, file)))

test('every page that a page links to, or that the code cites, is there', () => {
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
