import { readFile } from 'node:fs/promises'
import { expect, test } from '@jest/globals'
import { receivers } from '../packages/dashboard/src/pages/webhooks/receivers.ts'

test('the dashboard shows the receivers of the documentation', async () => {
  const page = await readFile(new URL('webhook-receivers.md', import.meta.url), 'utf8')
  const blocks = [...page.matchAll(/```(?:js|python|go|php)\n(.*?)\n```/gs)].map(([, code]) => code)
  expect(Object.values(receivers)).toStrictEqual(blocks)
})
