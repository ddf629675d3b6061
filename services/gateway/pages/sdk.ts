import type { SdkScript } from '@sluice/browser/load'
import type { Page } from '@sluice/http/app'
import { sendBuiltFile } from '@sluice/http/send-built-file'

/**
 * The browser SDK: `/sluice.js` is the latest version, `/sluice.<version>.js` the script of one release, whose contents a page
 * may pin by hash. Pages of any origin may load them.
 */
export function sdkPages({ version, file, earlier }: SdkScript): Page[] {
  const page = (path: string, script: SdkScript['file'], cacheControl: string): Page => ({
    path,
    handle: (request, response) => {
      sendBuiltFile(request, response, script, {
        'Cache-Control': cacheControl,
        'Access-Control-Allow-Origin': '*',
        // Cross-origin isolated pages load only resources with this header.
        'Cross-Origin-Resource-Policy': 'cross-origin',
      })
    },
  })
  return [
    page('/sluice.js', file, 'public, max-age=3600'),
    ...[{ version, file }, ...earlier].map((each) =>
      page(`/sluice.${each.version}.js`, each.file, 'public, max-age=31536000, immutable'),
    ),
  ]
}
