import { readFile } from 'node:fs/promises'
import { expect, it } from '@jest/globals'
import { limitsPage } from './limits.ts'

it('limits.md is what npm run docs writes', async () => {
  expect(await readFile(new URL('limits.md', import.meta.url), 'utf8')).toBe(limitsPage())
})
