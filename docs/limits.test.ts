import { expect, it } from '@jest/globals'
import { readFile } from 'node:fs/promises'
import { limitsPage } from './limits.ts'

it('docs/limits.md is what the constants say (npm run docs writes it)', async () => {
  expect(await readFile(new URL('limits.md', import.meta.url), 'utf8')).toBe(limitsPage())
})
