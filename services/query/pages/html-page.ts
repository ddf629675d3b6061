import { createHash } from 'node:crypto'
import type { Page, PageClient } from '@sluice/http/app'

/**
 * Creates a page whose commands hold the address of the request. Its content security policy allows its one style, by
 * the hash, and no other resource.
 */
export function htmlPage(
  path: string,
  { title, style, body }: { title: string; style: string; body: (origin: string) => string },
): Page {
  const hash = createHash('sha256').update(style).digest('base64')
  const policy = `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`
  return {
    path,
    handle: (_request, response, client) => {
      response.writeHead(200, {
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': policy,
        'X-Content-Type-Options': 'nosniff',
        'Referrer-Policy': 'no-referrer',
      })
      response.end(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>${style}</style>
${body(originOf(client))}
</html>
`)
    },
  }
}

/** Hosts are letters, digits and a few marks; anything else could be markup and is not echoed. */
function originOf({ isSecure, host }: PageClient): string {
  const shown = host !== undefined && /^[\w.:[\]-]+$/.test(host) ? host : 'localhost:8080'
  return `${isSecure ? 'https' : 'http'}://${shown}`
}
