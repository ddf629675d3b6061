import { readFile } from 'node:fs/promises'
import { expect, it } from '@jest/globals'
import { configurationPage } from './configuration.ts'

it('configuration.md is what npm run docs writes', async () => {
  expect(await readFile(new URL('configuration.md', import.meta.url), 'utf8')).toBe(configurationPage())
})
