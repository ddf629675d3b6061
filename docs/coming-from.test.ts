import { readFile } from 'node:fs/promises'
import { expect, it } from '@jest/globals'

it('the requests of coming-from.md send to the site that the page exports', async () => {
  const page = await readFile(new URL('coming-from.md', import.meta.url), 'utf8')
  const [, site] = /SLUICE_SITE=(\S+)/.exec(page) ?? []
  const sent = [...page.matchAll(/"site_id": "([^"]*)"/g)].map(([, id]) => id)
  expect(sent.length).toBeGreaterThan(2)
  expect(new Set(sent)).toEqual(new Set([site]))
})
