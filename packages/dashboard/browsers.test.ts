import { readFile } from 'node:fs/promises'
import { expect, test } from '@jest/globals'
import { browsersText } from './browsers.ts'

test('the documentation names the browsers that the dashboard is built for', async () => {
  const text = await readFile(new URL('../../docs/dashboard.md', import.meta.url), 'utf8')
  expect(text.replaceAll(/\s+/g, ' ')).toContain(browsersText)
})
