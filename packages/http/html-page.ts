import { hash } from 'node:crypto'
import { sum } from '@sluice/runtime/sum'
import type { StaticPage } from './app.ts'
import { deflatedPart, gzipOf, storedPart } from './gzip-parts.ts'
import { matchesEtag } from './preconditions.ts'
import type { Client } from './route.ts'
import { chooseCoding } from './send-built-file.ts'
import { type HtmlPage, renderHtml } from './send-html.ts'

/** Placeholder in the body of a page for the origin of the request. */
export const originPlaceholder = '\0'

/**
 * Creates a page. All responses share the same buffers except for the address, compressed or not, so that clients which
 * do not read their responses hold no copies.
 */
export function htmlPage(path: string, page: HtmlPage): StaticPage {
  const { text, headers } = renderHtml(page)
  const textHash = hash('sha256', text, 'base64url')
  const fixedParts = text.split(originPlaceholder).map((part) => deflatedPart(Buffer.from(part)))
  return {
    path,
    handle: (request, response, client) => {
      const origin = originOf(client)
      const coding = chooseCoding(request.headers['accept-encoding'], ['gzip'])
      const etag = `"${hash('sha256', textHash + origin, 'base64url')}-${coding}"`
      const cacheHeaders = { 'Cache-Control': 'no-cache', ETag: etag, Vary: 'Accept-Encoding' }
      if (matchesEtag(etag, request.headers['if-none-match'])) {
        response.writeHead(304, cacheHeaders).end()
        return
      }
      const originPart = storedPart(Buffer.from(origin))
      const parts = fixedParts.flatMap((part, index) => (index === 0 ? [part] : [originPart, part]))
      const chunks = coding === 'gzip' ? gzipOf(parts) : parts.map(({ plain }) => plain)
      response.writeHead(200, {
        ...headers,
        ...cacheHeaders,
        ...(coding === 'gzip' && { 'Content-Encoding': coding }),
        'Content-Length': sum(chunks.map((chunk) => chunk.length)),
      })
      for (const chunk of chunks) response.write(chunk)
      response.end()
    },
  }
}

/** Hosts are letters, digits and a few marks; anything else could be markup and is not echoed. */
function originOf({ isSecure, host }: Pick<Client, 'isSecure' | 'host'>): string {
  const shown = host !== undefined && /^[\w.:[\]-]+$/.test(host) ? host : 'localhost:8080'
  return `${isSecure ? 'https' : 'http'}://${shown}`
}
