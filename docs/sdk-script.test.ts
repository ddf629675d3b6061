import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { loadSdk } from '@sluice/browser/load'
import { withPinnedScript } from './sdk-script.ts'

test('the page of the browser SDK has the hash of the present script', () => {
  const page = readFileSync(new URL('sdk/browser.md', import.meta.url), 'utf8')
  // `npm run docs` writes it.
  expect(page).toBe(withPinnedScript(page))
})

test('the page warns of pinning a script that is not released', () => {
  const page = readFileSync(new URL('sdk/browser.md', import.meta.url), 'utf8')
  const sdk = { version: '0.2.0', integrity: 'sha384-x' }
  const { file } = loadSdk()
  expect(withPinnedScript(page, { ...sdk, released: [{ version: '0.1.0', file }] })).toContain('0.2.0 is not released')
  expect(withPinnedScript(page, { ...sdk, released: [{ version: '0.2.0', file }] })).not.toContain('is not released')
})
