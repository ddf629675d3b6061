import { hash } from 'node:crypto'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { OpenApiDocument } from '@sluice/api/openapi/types'
import type { StaticPage } from '@sluice/http/app'
import { sendBuiltFile } from '@sluice/http/send-built-file'

/** `/openapi.json`: serves the document without the envelope of other responses, to pages of any origin. */
export function openApiPage(document: OpenApiDocument): StaticPage {
  // One copy for all requests: a string would be encoded for each client that does not read it.
  const identity = Buffer.from(JSON.stringify(document))
  const file = {
    contentType: 'application/json; charset=utf-8',
    hash: hash('sha256', identity, 'base64url'),
    encoded: {
      identity,
      gzip: gzipSync(identity),
      // The highest quality takes half a second.
      br: brotliCompressSync(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
    },
  }
  return {
    path: '/openapi.json',
    handle: (request, response) => {
      sendBuiltFile(request, response, file, { 'Cache-Control': 'no-cache', 'Access-Control-Allow-Origin': '*' })
    },
  }
}
