import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BuiltFile } from '@sluice/runtime/built-file'
import { matchesEtag } from './preconditions.ts'

/** `Cache-Control` for an address that names a version or a hash of its contents, which therefore never change. */
export const immutableCacheControl = 'public, max-age=31536000, immutable'

/** Sends a file in a content coding that the client accepts, or 304 if the client has it in that coding. */
export function sendBuiltFile(
  { headers }: IncomingMessage,
  response: ServerResponse,
  { contentType, hash, encoded }: BuiltFile,
  cacheHeaders: Readonly<Record<string, string>>,
): void {
  const coding = chooseCoding(headers['accept-encoding'])
  const etag = `"${hash}-${coding}"`
  const common = { ...cacheHeaders, ETag: etag, Vary: 'Accept-Encoding' }
  if (matchesEtag(etag, headers['if-none-match'])) {
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

/**
 * The content coding with the smallest file that the client accepts. `q=0` excludes a coding; other weights are
 * ignored.
 */
function chooseCoding(acceptEncoding = ''): 'br' | 'gzip' | 'identity' {
  const accepted = new Map(
    acceptEncoding.split(',').map((part) => {
      const [name = '', ...parameters] = part.split(';').map((each) => each.trim().toLowerCase())
      return [name, !parameters.some((each) => /^q=0(\.0*)?$/.test(each))] as const
    }),
  )
  return (['br', 'gzip'] as const).find((coding) => accepted.get(coding) ?? accepted.get('*') ?? false) ?? 'identity'
}
