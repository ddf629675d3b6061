import { createHash } from 'node:crypto'
import type { OpenApiDocument } from '@sluice/api/openapi/types'
import type { StaticPage } from '@sluice/http/app'
import { matchesEtag } from '@sluice/http/preconditions'

/** `/openapi.json`: serves the document without the envelope of other responses, to pages of any origin. */
export function openApiPage(document: OpenApiDocument): StaticPage {
  // One copy for all requests: a string would be encoded for each client that does not read it.
  const body = Buffer.from(JSON.stringify(document))
  const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
  return {
    path: '/openapi.json',
    handle: ({ headers }, response) => {
      response.setHeader('ETag', etag)
      response.setHeader('Cache-Control', 'no-cache')
      response.setHeader('Access-Control-Allow-Origin', '*')
      if (matchesEtag(etag, headers['if-none-match'])) {
        response.writeHead(304).end()
        return
      }
      response.writeHead(200, {
        'Content-Type': 'application/json; charset=utf-8',
        'Content-Length': body.length,
        'X-Content-Type-Options': 'nosniff',
      })
      response.end(body)
    },
  }
}
