import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

const root = fileURLToPath(new URL('../', import.meta.url))
const files = execFileSync('git', ['ls-files', 'README.md', 'docs', 'packages/sdk-browser'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /\.(md|html|mjs|ts|tsx)$/.test(file))

test('no script element shows the placeholder under which npm start prints the admin key', () => {
  const shown = files.filter((file) => /data-key="svc_\w+…/.test(readFileSync(join(root, file), 'utf8')))
  expect(shown).toEqual([])
})
