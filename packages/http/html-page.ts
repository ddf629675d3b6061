import type { Page } from './app.ts'
import type { Client } from './route.ts'
import { type HtmlPage, sendHtml } from './send-html.ts'

/** Creates a page whose commands hold the address of the request. */
export function htmlPage(path: string, page: Omit<HtmlPage, 'body'> & { body: (origin: string) => string }): Page {
  return {
    path,
    handle: (_request, response, client) => {
      sendHtml(response, 200, { ...page, body: page.body(originOf(client)) })
    },
  }
}

/** Hosts are letters, digits and a few marks; anything else could be markup and is not echoed. */
function originOf({ isSecure, host }: Pick<Client, 'isSecure' | 'host'>): string {
  const shown = host !== undefined && /^[\w.:[\]-]+$/.test(host) ? host : 'localhost:8080'
  return `${isSecure ? 'https' : 'http'}://${shown}`
}
