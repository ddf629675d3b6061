import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { withPinnedScript } from './sdk-script.ts'

test('the page of the browser SDK has the hash of the present script', () => {
  const page = readFileSync(new URL('sdk/browser.md', import.meta.url), 'utf8')
  // `npm run docs` writes it.
  expect(page).toBe(withPinnedScript(page))
})
