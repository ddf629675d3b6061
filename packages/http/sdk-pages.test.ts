import { expect, test } from '@jest/globals'
import { serveLocally } from '../../tests/dashboard/support/resources.ts'
import type { StaticPage } from './app.ts'
import { sdkPages } from './sdk-pages.ts'

const script = Buffer.from('sluice()')
const file = { contentType: 'text/javascript', hash: 'h', encoded: { identity: script, gzip: script, br: script } }

/** The address of each page, and how long it may be cached. */
async function served(pages: readonly StaticPage[]): Promise<unknown[]> {
  const server = await serveLocally((request, response) => {
    const page = pages.find(({ path }) => path === request.url)
    void page?.handle(request, response, { isSecure: false, host: 'localhost' })
  })
  try {
    return await Promise.all(
      pages.map(async ({ path }) => [path, (await fetch(server.url + path)).headers.get('cache-control')]),
    )
  } finally {
    server.stop()
  }
}

test('the browser SDK has an address for its latest version and one for each release, whose script never changes', async () => {
  const released = ['0.1.0', '0.2.0'].map((version) => ({ version, file }))
  expect(await served(sdkPages({ version: '0.2.0', file, released }))).toEqual([
    ['/sluice.js', 'public, max-age=3600'],
    ['/sluice.0.1.0.js', 'public, max-age=31536000, immutable'],
    ['/sluice.0.2.0.js', 'public, max-age=31536000, immutable'],
  ])
})

test('the script of a version that is not released may change, and is cached as briefly as the latest', async () => {
  expect(await served(sdkPages({ version: '0.2.0', file, released: [{ version: '0.1.0', file }] }))).toEqual([
    ['/sluice.js', 'public, max-age=3600'],
    ['/sluice.0.2.0.js', 'public, max-age=3600'],
    ['/sluice.0.1.0.js', 'public, max-age=31536000, immutable'],
  ])
})
