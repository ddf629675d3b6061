import type { BuiltFile } from '@sluice/runtime/built-file'
import type { StaticPage } from './app.ts'
import { immutableCacheControl, sendBuiltFile } from './send-built-file.ts'

/** A version of the script for web pages, as `loadSdk` reads it. */
interface ScriptVersion {
  version: string
  file: BuiltFile
}

/**
 * The browser SDK: `/sluice.js` is the latest version, `/sluice.<version>.js` the script of one release, whose contents
 * a page may pin by hash. Before its release, the script of the latest version may still change, also at that address.
 * Pages of any origin may load them. The gateway and the query service both have them, because
 * a proxy in front of the two may send everything but events to the query service.
 */
export function sdkPages({
  version,
  file,
  released,
}: ScriptVersion & { released: readonly ScriptVersion[] }): StaticPage[] {
  const hourly = 'public, max-age=3600'
  const isReleased = released.some((each) => each.version === version)
  const page = (path: string, script: BuiltFile, cacheControl: string): StaticPage => ({
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
    page('/sluice.js', file, hourly),
    ...(isReleased ? [] : [page(`/sluice.${version}.js`, file, hourly)]),
    ...released.map((each) => page(`/sluice.${each.version}.js`, each.file, immutableCacheControl)),
  ]
}
