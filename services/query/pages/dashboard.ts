import type { IncomingMessage, ServerResponse } from 'node:http'
import type { DashboardFile, DashboardFiles } from '@sluice/dashboard/load'
import type { Page } from '@sluice/http/app'
import { notFound } from '@sluice/runtime/errors'
import { isKnown } from './etag.ts'

/** Every path that the dashboard routes by itself, as patterns of Express. */
const routes = ['/', '/signin', '/sites/{*rest}', '/settings/{*rest}']
const assetsPath = '/assets/'

/**
 * The dashboard: one page at all its routes, and the files that the page loads. `collectUrl`: the origin that takes events,
 * to which the page may send one too; undefined: the page's own.
 */
export function dashboardPages({ shell, assets }: DashboardFiles, collectUrl: string | undefined): Page[] {
  const shellHeaders = {
    // The page is asked for anew each time: it names the assets of the deploy.
    'Cache-Control': 'no-cache',
    'Content-Security-Policy': policy(collectUrl),
    'Referrer-Policy': 'same-origin',
  }
  // The name of an asset holds a hash of its contents.
  const assetHeaders = { 'Cache-Control': 'public, max-age=31536000, immutable' }
  return [
    ...routes.map((path): Page => ({
      path,
      handle: (request, response) => {
        sendBuilt(request, response, shell, shellHeaders)
      },
    })),
    {
      path: `${assetsPath}:name`,
      handle: (request, response) => {
        const [path = ''] = (request.url ?? '').split('?', 1)
        const asset = assets.get(path.slice(assetsPath.length))
        if (!asset) throw notFound()
        sendBuilt(request, response, asset, assetHeaders)
      },
    },
  ]
}

/** The page runs and loads only what is served here, makes no script of a text, and is shown in no frame. */
function policy(collectUrl: string | undefined): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    `connect-src 'self'${collectUrl === undefined ? '' : ` ${collectUrl}`}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ')
}

/** Sends a file in a coding that the client takes, or 304 when it has the file in that coding. */
function sendBuilt(
  { headers }: IncomingMessage,
  response: ServerResponse,
  { contentType, hash, encoded }: DashboardFile,
  cacheHeaders: Readonly<Record<string, string>>,
): void {
  const coding = chooseCoding(headers['accept-encoding'])
  const etag = `"${hash}-${coding}"`
  const common = { ...cacheHeaders, ETag: etag, Vary: 'Accept-Encoding' }
  if (isKnown(etag, headers['if-none-match'])) {
    response.writeHead(304, common).end()
    return
  }
  const body = encoded[coding]
  response.writeHead(200, {
    'Content-Type': contentType,
    'Content-Length': body.length,
    ...(coding === 'identity' ? {} : { 'Content-Encoding': coding }),
    'X-Content-Type-Options': 'nosniff',
    ...common,
  })
  response.end(body)
}

/** The smallest coding that the client takes; `q=0` forbids one, and other weights don't matter. */
function chooseCoding(acceptEncoding = ''): 'br' | 'gzip' | 'identity' {
  const accepted = new Map(
    acceptEncoding.split(',').map((part) => {
      const [name = '', ...parameters] = part.split(';').map((each) => each.trim().toLowerCase())
      return [name, !parameters.some((each) => /^q=0(\.0*)?$/.test(each))] as const
    }),
  )
  return (['br', 'gzip'] as const).find((coding) => accepted.get(coding) ?? accepted.get('*') ?? false) ?? 'identity'
}
