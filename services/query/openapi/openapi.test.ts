import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { openApiDocument } from '@sluice/contracts/openapi'
import { operations } from '@sluice/contracts/operations'
import { keysInMemory, startTestService, type TestService } from '@sluice/http/testing'
import { openApiPage } from './page.ts'

const document = openApiDocument(operations, { version: '1.2.3' })

describe('GET /openapi.json', () => {
  let service: TestService
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    fetch(`${service.url}/openapi.json`, { headers, method })

  beforeAll(async () => {
    service = await startTestService({ pages: [openApiPage(document)] }, keysInMemory({}))
  })
  afterAll(() => service.stop())

  it('200: the document as it is, without the envelope, for pages of any origin', async () => {
    const response = await get()
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toMatch(/^application\/json/)
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    expect(response.headers.get('x-request-id')).toBeTruthy()
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)))
  })

  it('304 for who has it already, through a proxy that compresses too', async () => {
    const etag = (await get()).headers.get('etag') ?? ''
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const response = await get({ 'If-None-Match': known })
      expect([response.status, await response.text()]).toEqual([304, ''])
      expect(response.headers.get('etag')).toBe(etag)
    }
    expect((await get({ 'If-None-Match': '"other"' })).status).toBe(200)
  })

  it('HEAD tells its size, 405 comes for what changes something', async () => {
    const head = await get({}, 'HEAD')
    expect(Number(head.headers.get('content-length'))).toBe(Buffer.byteLength(JSON.stringify(document)))
    expect((await get({}, 'POST')).status).toBe(405)
  })
})
