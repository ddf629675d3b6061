import type { ServerResponse } from 'node:http'
import type { Headers } from './headers.ts'
import { type HtmlPage, renderHtml } from './html-page.ts'

/** Sends a page that is made for one request. */
export function sendHtml(response: ServerResponse, status: number, page: HtmlPage, headers: Headers = {}): void {
  const { text, headers: own } = renderHtml(page)
  response.writeHead(status, { ...own, 'Content-Length': Buffer.byteLength(text), ...headers })
  response.end(text)
}
