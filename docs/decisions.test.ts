import { readFile } from 'node:fs/promises'
import { expect, test } from '@jest/globals'
import { decisionsPage } from './decisions.ts'

test('the list of decisions is the one that npm run docs writes', async () => {
  expect(await readFile(new URL('decisions/README.md', import.meta.url), 'utf8')).toBe(decisionsPage())
})
