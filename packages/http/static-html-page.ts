import { hash } from 'node:crypto'
import { sum } from '@sluice/runtime/sum'
import type { StaticPage } from './app.ts'
import { type HtmlPage, renderHtml } from './html-page.ts'
import { matchesEtag } from './preconditions.ts'
import type { Client } from './route.ts'

/** Placeholder in the body of a page for the origin of the request. */
export const originPlaceholder = '\0'

/**
 * Creates a page. All responses share the same buffers except for the address, so that clients which do not read their
 * responses hold no copies. For the same reason it is not compressed: each address would need a copy.
 */
export function staticHtmlPage(path: string, page: HtmlPage): StaticPage {
  const { text, headers } = renderHtml(page)
  const textHash = hash('sha256', text, 'base64url')
  const fixedParts = text.split(originPlaceholder).map((part) => Buffer.from(part))
  return {
    path,
    handle: (request, response, client) => {
      const origin = Buffer.from(originOf(client))
      const etag = `"${hash('sha256', textHash + origin.toString(), 'base64url')}"`
      const cacheHeaders = { 'Cache-Control': 'no-cache', ETag: etag }
      if (matchesEtag(etag, request.headers['if-none-match'])) {
        response.writeHead(304, cacheHeaders).end()
        return
      }
      const parts = fixedParts.flatMap((part, index) => (index === 0 ? [part] : [origin, part]))
      const length = sum(parts.map((part) => part.length))
      response.writeHead(200, { ...headers, ...cacheHeaders, 'Content-Length': length })
      for (const part of parts) response.write(part)
      response.end()
    },
  }
}

/** Hosts are letters, digits and a few marks; anything else could be markup and is not echoed. */
function originOf({ isSecure, host }: Pick<Client, 'isSecure' | 'host'>): string {
  const shown = host !== undefined && /^[\w.:[\]-]+$/.test(host) ? host : 'localhost:8080'
  return `${isSecure ? 'https' : 'http'}://${shown}`
}
