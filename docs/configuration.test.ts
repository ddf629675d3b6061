import { expect, it } from '@jest/globals'
import { readFile } from 'node:fs/promises'
import { configurationPage } from './configuration.ts'

it('docs/configuration.md is what the services read (npm run docs writes it)', async () => {
  expect(await readFile(new URL('configuration.md', import.meta.url), 'utf8')).toBe(configurationPage())
})
