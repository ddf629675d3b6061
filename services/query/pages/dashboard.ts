import type { DashboardFiles } from '@sluice/dashboard/load'
import type { StaticPage } from '@sluice/http/app'
import { immutableCacheControl, sendBuiltFile } from '@sluice/http/send-built-file'
import { notFound } from '@sluice/runtime/errors'

/** Every path that the dashboard routes by itself, as patterns of Express. */
const routes = ['/', '/signin', '/sites/{*rest}', '/settings/{*rest}']
const assetsPath = '/assets/'

/**
 * The dashboard: one page at all its routes, and the files that the page loads. `collectUrl`: the origin that takes
 * events, to which the page may send one too; undefined: the page's own.
 */
export function dashboardPages({ shell, assets }: DashboardFiles, collectUrl: string | undefined): StaticPage[] {
  const shellHeaders = {
    // Browsers revalidate the page each time, because it names the assets of the deploy.
    'Cache-Control': 'no-cache',
    'Content-Security-Policy': policy(collectUrl),
    'Referrer-Policy': 'same-origin',
  }
  // The name of an asset holds a hash of its contents.
  const assetHeaders = { 'Cache-Control': immutableCacheControl }
  return [
    ...routes.map((path): StaticPage => ({
      path,
      handle: (request, response) => sendBuiltFile(request, response, shell, shellHeaders),
    })),
    {
      path: `${assetsPath}:name`,
      handle: (request, response) => {
        const [path = ''] = (request.url ?? '').split('?', 1)
        const asset = assets.get(path.slice(assetsPath.length))
        if (!asset) throw notFound()
        sendBuiltFile(request, response, asset, assetHeaders)
      },
    },
  ]
}

/** The page runs and loads only what is served here, turns no text into a script, and is shown in no frame. */
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
