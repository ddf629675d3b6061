import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Page } from '@sluice/http/app'

/** A page of ours: its one style is allowed by its hash, and nothing else, from here or elsewhere. */
export function htmlPage(
  path: string,
  { title, style, body }: { title: string; style: string; body: (host: string) => string },
): Page {
  const hash = createHash('sha256').update(style).digest('base64')
  const policy = `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`
  return {
    path,
    handle: (request, response) => {
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
${body(hostOf(request))}
</html>
`)
    },
  }
}

/** Hosts are letters, digits and a few marks; anything else could be markup and is not echoed. */
function hostOf({ headers: { host } }: IncomingMessage): string {
  return host !== undefined && /^[\w.:[\]-]+$/.test(host) ? host : 'localhost:8080'
}
