import { request as httpRequest } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { loadDashboard } from '@sluice/dashboard/load'
import { keysInMemory, startTestService, type TestService } from '../../../tests/support/test-service.ts'
import { dashboardPages } from './dashboard.ts'

const files = loadDashboard()
const [assetName = ''] = [...files.assets.keys()].filter((name) => /^main-\w+\.js$/.test(name))
const assetBytes = files.assets.get(assetName)?.encoded.identity ?? Buffer.alloc(0)
const asset = `/assets/${assetName}`

let service: TestService

beforeAll(async () => {
  service = await startTestService({ pages: dashboardPages(files, 'https://collect.example') }, keysInMemory({}))
})

afterAll(async () => {
  await service.stop()
})

const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(service.url + path, { headers, method })

/** The bytes as they were sent: fetch decompresses them. */
const getRaw = (path: string, acceptEncoding?: string) =>
  new Promise<{ encoding: string | undefined; length: number; body: Buffer }>((resolve, reject) => {
    const headers = acceptEncoding === undefined ? {} : { 'Accept-Encoding': acceptEncoding }
    const sent = httpRequest(service.url + path, { headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const { 'content-encoding': encoding, 'content-length': length } = response.headers
        resolve({ encoding, length: Number(length), body: Buffer.concat(chunks) })
      })
    })
    sent.on('error', reject)
    sent.end()
  })

describe('the page', () => {
  test.each(['/', '/signin', '/sites/my-site', '/sites/a%2Fb%00/live?range=7d', '/settings/keys', '/settings/session'])(
    'is served at %s',
    async (path) => {
      const response = await get(path)
      expect(response.status).toBe(200)
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(response.headers.get('x-request-id')).toBeTruthy()
      expect(await response.text()).toBe(files.shell.encoded.identity.toString('utf8'))
    },
  )

  test('is not served elsewhere', async () => {
    for (const path of ['/signin/x', '/other', '/index.html', '/settings', '/assets', '/assets/']) {
      const response = await get(path)
      expect([path, response.status]).toEqual([path, 404])
      expect(await response.json()).toMatchObject({ success: false, error: 'Not found' })
    }
  })

  test('may load and run what is served here alone, and send events to the collector', async () => {
    const { headers } = await get('/')
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' https://collect.example; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    )
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('referrer-policy')).toBe('same-origin')
  })

  test('holds no script and no style of its own, and names only assets that are there', async () => {
    const html = await (await get('/')).text()
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/i)
    const addresses = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, address = '']) => address)
    expect(addresses.length).toBeGreaterThanOrEqual(4)
    for (const address of addresses) expect([address, (await get(address)).status]).toEqual([address, 200])
  })

  test('is asked for anew each time, and not sent again to who has it', async () => {
    const { headers } = await get('/')
    expect(headers.get('cache-control')).toBe('no-cache')
    const known = await get('/', { 'If-None-Match': headers.get('etag') ?? '' })
    expect([known.status, await known.text()]).toEqual([304, ''])
    expect(known.headers.get('cache-control')).toBe('no-cache')
    expect((await get('/', { 'If-None-Match': '"other"' })).status).toBe(200)
  })

  test('names its own origin alone where no collector is set', async () => {
    const alone = await startTestService({ pages: dashboardPages(files, undefined) }, keysInMemory({}))
    try {
      const { headers } = await fetch(alone.url)
      expect(headers.get('content-security-policy')).toContain("; connect-src 'self'; ")
    } finally {
      await alone.stop()
    }
  })
})

describe('an asset', () => {
  test('is kept for ever', async () => {
    const response = await get(asset)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(Buffer.from(await response.arrayBuffer()).equals(assetBytes)).toBe(true)
  })

  test.each([
    ['br', 'gzip, deflate, br, zstd'],
    ['br', '*'],
    ['gzip', 'gzip, br;q=0'],
    ['gzip', 'GZIP'],
    [undefined, 'gzip;q=0.0, br;q=0'],
    [undefined, 'identity'],
    [undefined, undefined],
  ])('is sent in coding %s to who accepts %s', async (coding, accepted) => {
    const { encoding, length, body } = await getRaw(asset, accepted)
    expect(encoding).toBe(coding)
    expect(length).toBe(body.length)
    const plain = coding === 'br' ? brotliDecompressSync(body) : coding === 'gzip' ? gunzipSync(body) : body
    expect(plain.equals(assetBytes)).toBe(true)
    if (coding !== undefined) expect(body.length).toBeLessThan(assetBytes.length / 2)
  })

  test('has another tag in each coding, and caches keep the codings apart', async () => {
    const tags = await Promise.all(
      ['br', 'gzip', 'identity'].map(async (coding) => {
        const { headers } = await get(asset, { 'Accept-Encoding': coding })
        expect(headers.get('vary')).toBe('Accept-Encoding')
        return headers.get('etag')
      }),
    )
    expect(new Set(tags).size).toBe(3)
  })

  test('answers HEAD with its size and other methods with 405', async () => {
    const head = await get(asset, { 'Accept-Encoding': 'identity' }, 'HEAD')
    expect([head.status, Number(head.headers.get('content-length'))]).toEqual([200, assetBytes.length])
    const post = await get(asset, {}, 'POST')
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  })

  test.each(['/assets/main-OLDER000.js', '/assets/..%2Findex.html', '/assets/main.js/x', '/assets/__proto__'])(
    '%s is not found, and that is not kept',
    async (path) => {
      const response = await get(path)
      expect(response.status).toBe(404)
      expect(response.headers.get('cache-control')).toBe('no-store')
    },
  )
})

test('a dashboard that is not built is named, with what to do', () => {
  expect(() => loadDashboard('/nowhere')).toThrow(/The dashboard is not built: .*Run "npm run setup"/)
})
