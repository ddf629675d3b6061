import { createHash } from 'node:crypto'
import type { OpenApiDocument } from '@sluice/api/openapi/types'
import type { Page } from '@sluice/http/app'
import { isKnown } from '@sluice/http/send-built-file'

/** `/openapi.json`: serves the document without the envelope of other responses, to pages of any origin. */
export function openApiPage(document: OpenApiDocument): Page {
  const text = JSON.stringify(document)
  const etag = `"${createHash('sha256').update(text).digest('base64url')}"`
  return {
    path: '/openapi.json',
    handle: ({ headers }, response) => {
      response.setHeader('ETag', etag)
      response.setHeader('Cache-Control', 'no-cache')
      response.setHeader('Access-Control-Allow-Origin', '*')
      if (isKnown(etag, headers['if-none-match'])) {
        response.writeHead(304).end()
        return
      }
      response.writeHead(200, {
        'Content-Type': 'application/json; charset=utf-8',
        'Content-Length': Buffer.byteLength(text),
        'X-Content-Type-Options': 'nosniff',
      })
      response.end(text)
    },
  }
}
