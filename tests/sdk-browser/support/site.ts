import type { RequestListener } from 'node:http'
import { type LocalServer, serveLocally } from '../../dashboard/support/resources.ts'

/** A website of a test. Its pages are at any path. */
export interface Site extends LocalServer {
  /** What the pages hold from now on, and the headers that they are sent with. */
  show: (html: string, headers?: Readonly<Record<string, string>>) => void
  /** Serves something else at a path. */
  serve: (path: string, listener: RequestListener) => void
}

export async function startSite(): Promise<Site> {
  let html = ''
  let headers: Readonly<Record<string, string>> = {}
  const others = new Map<string, RequestListener>()
  const server = await serveLocally((request, response) => {
    const [path = ''] = (request.url ?? '').split('?', 1)
    const other = others.get(path)
    if (other) other(request, response)
    else if (path === '/favicon.ico') response.writeHead(204).end()
    else response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', ...headers }).end(html)
  })
  return {
    ...server,
    show: (nextHtml, nextHeaders = {}) => {
      html = `<!doctype html><title>A shop</title>\n${nextHtml}`
      headers = nextHeaders
    },
    serve: (path, listener) => others.set(path, listener),
  }
}

/** The script element for a page; `attributes` beside src, site and key. Without a site it has no attribute for one. */
export function scriptTag(
  url: string,
  { site, key, ...attributes }: { site: string | undefined; key: string; [name: string]: string | undefined },
): string {
  const given = Object.entries({ 'data-site': site, 'data-key': key, ...attributes })
  const all = given.flatMap(([name, value]) => (value === undefined ? [] : [` ${name}="${value}"`]))
  return `<script defer src="${url}/sluice.js"${all.join('')}></script>`
}
