import { expect, test } from '@jest/globals'
import { loadSdk } from '@sluice/browser/load'
import { sdkPages } from './sdk.ts'

test('the browser SDK has an address for its latest version and one for each release', () => {
  const latest = loadSdk()
  const pages = sdkPages({ ...latest, version: '0.2.0', earlier: [{ version: '0.1.0', file: latest.file }] })
  expect(pages.map(({ path }) => path)).toEqual(['/sluice.js', '/sluice.0.2.0.js', '/sluice.0.1.0.js'])
})
