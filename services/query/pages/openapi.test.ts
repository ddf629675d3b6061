import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { openApiDocument } from '@sluice/api/openapi/document'
import { operations } from '@sluice/api/operations'
import { keysInMemory, startTestService, type TestService } from '../../../tests/support/test-service.ts'
import { openApiPage } from './openapi.ts'

const document = openApiDocument(operations, { version: '1.2.3' })

describe('GET /openapi.json', () => {
  let service: TestService
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    fetch(`${service.url}/openapi.json`, { headers, method })

  beforeAll(async () => {
    service = await startTestService({ pages: [openApiPage(document)] }, keysInMemory({}))
  })
  afterAll(() => service.stop())

  it('returns the document without an envelope to pages of any origin', async () => {
    const response = await get()
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toMatch(/^application\/json/)
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    expect(response.headers.get('x-request-id')).toBeTruthy()
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)))
  })

  it('responds with 304 to a client that has the document, also through a proxy that compresses', async () => {
    const etag = (await get()).headers.get('etag') ?? ''
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const response = await get({ 'If-None-Match': known })
      expect([response.status, await response.text()]).toEqual([304, ''])
      expect(response.headers.get('etag')).toBe(etag)
    }
    expect((await get({ 'If-None-Match': '"other"' })).status).toBe(200)
  })

  it('is sent in the codings that the client accepts', async () => {
    for (const coding of ['br', 'gzip']) {
      const response = await get({ 'Accept-Encoding': coding })
      expect(response.headers.get('content-encoding')).toBe(coding)
      expect(response.headers.get('vary')).toBe('Accept-Encoding')
      expect(response.headers.get('cache-control')).toBe('no-cache')
      expect(Number(response.headers.get('content-length'))).toBeLessThan(JSON.stringify(document).length / 5)
      expect(await response.json()).toEqual(JSON.parse(JSON.stringify(document)))
    }
  })

  it('responds to HEAD with the size and to other methods with 405', async () => {
    const head = await get({ 'Accept-Encoding': 'identity' }, 'HEAD')
    expect(Number(head.headers.get('content-length'))).toBe(Buffer.byteLength(JSON.stringify(document)))
    expect((await get({}, 'POST')).status).toBe(405)
  })
})
