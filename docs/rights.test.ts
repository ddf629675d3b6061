import { readFile } from 'node:fs/promises'
import { expect, test } from '@jest/globals'
import { rightsPage } from './rights.ts'

test('rights.md is what npm run docs writes', async () => {
  expect(await readFile(new URL('rights.md', import.meta.url), 'utf8')).toBe(rightsPage())
})
