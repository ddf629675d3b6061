import type { IncomingMessage, ServerResponse } from 'node:http'
import { statusOf } from '@sluice/api/error-status'
import { AppError, type ErrorCode } from '@sluice/runtime/errors'
import type { Headers } from './headers.ts'
import { noteStyle } from './html-page.ts'
import { HttpError } from './http-error.ts'
import { prefersType } from './prefers-type.ts'
import { sendHtml } from './send-html.ts'

/** Whether somebody opens the address in a browser: a GET that prefers HTML. Programs and scripts of pages get JSON. */
export function wantsPage({ method, headers }: IncomingMessage): boolean {
  return (method === 'GET' || method === 'HEAD') && prefersType(headers.accept ?? '', 'text/html')
}

/**
 * Sends an error of the client as a page with a sentence that says what to do. `common`: the headers that every
 * response to the request has. Returns false, and sends nothing, for an error that has no such page.
 */
export function sendErrorPage(response: ServerResponse, common: Headers, error: unknown): boolean {
  if (!(error instanceof AppError)) return false
  const own: Headers = error instanceof HttpError ? error.headers : {}
  const page = pageOf(error.code, own)
  if (!page) return false
  const { title, advice } = page
  // Which pages of other origins may read the answer depends on Origin.
  const vary = ['Accept', common.Vary].filter((names) => names !== undefined).join(', ')
  const body = `<main>
<h1>${title}</h1>
<p>${advice}</p>
<p><a href="/">Start page</a></p>
<p><small>Request id: ${common['X-Request-Id'] ?? ''}</small></p>
</main>`
  sendHtml(
    response,
    statusOf[error.code],
    { title: `${title} · Sluice`, style: noteStyle, body },
    { 'Cache-Control': 'no-store', ...common, ...own, Vary: vary },
  )
  return true
}

function pageOf(code: ErrorCode, { Allow: methods = '' }: Headers): { title: string; advice: string } | undefined {
  if (code === 'method_not_allowed')
    return {
      title: 'This address is for programs',
      advice: `It takes requests with the method ${methods}, and a browser that opens it sends GET. The reference says how to call it.`,
    }
  if (code === 'not_found')
    return {
      title: 'There is nothing at this address',
      advice: 'Check it for a typing mistake, or go to the start page.',
    }
  if (code === 'invalid_format')
    return {
      title: 'This address can’t be read',
      advice: 'A percent sign in it is not followed by two hexadecimal digits. Check it for a typing mistake.',
    }
  return undefined
}
