import { expect, test } from '@jest/globals'
import { sdkPages } from './sdk-pages.ts'

test('the browser SDK has an address for its latest version and one for each release', () => {
  const script = Buffer.from('sluice()')
  const file = { contentType: 'text/javascript', hash: 'h', encoded: { identity: script, gzip: script, br: script } }
  const pages = sdkPages({ version: '0.2.0', file, earlier: [{ version: '0.1.0', file }] })
  expect(pages.map(({ path }) => path)).toEqual(['/sluice.js', '/sluice.0.2.0.js', '/sluice.0.1.0.js'])
})
