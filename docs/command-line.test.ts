import { readFile } from 'node:fs/promises'
import { expect, it } from '@jest/globals'
import { withCommandReference } from './command-line.ts'

it('command-line.md holds the help texts that npm run docs writes', async () => {
  const page = await readFile(new URL('command-line.md', import.meta.url), 'utf8')
  expect(page).toBe(withCommandReference(page))
})
