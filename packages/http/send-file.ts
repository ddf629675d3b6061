import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { AppError } from '@sluice/runtime/errors'
import type { Headers } from './headers.ts'
import { rangeNotSatisfiable } from './http-error.ts'
import { matchesEtag, passesIfMatch } from './preconditions.ts'
import type { ByteRange, FileResult } from './route.ts'

/**
 * Sends a file: 200, or 206 for one range of it; the response to HEAD has only the headers. Resolves when the file is
 * sent or the client has disconnected. Throws 416 for a range beyond the end, the error of `open`, and an error of the
 * stream, which may come after the headers were sent.
 *
 * For a file with an entity tag, `If-Match` and `If-None-Match` are evaluated first, in the order of RFC 9110 (13.2.2):
 * throws 412 when `If-Match` does not name the content, and sends 304 when `If-None-Match` does.
 *
 * A request for several ranges gets the whole file, as RFC 9110 (14.2) allows. The whole file is also sent if
 * `If-Range` names another content, if `Range` is not valid, and if the file is made while it is sent.
 */
export async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  common: Headers,
  file: FileResult,
): Promise<void> {
  if (file.content && isKnownToClient(file.content, request)) {
    response.writeHead(304, { ETag: `"${file.content.etag}"`, 'Cache-Control': 'no-store', ...common }).end()
    return
  }
  const { range, length, headers } = file.content ? partOf(file.content, request) : unknownContent
  const allHeaders = {
    'Content-Type': file.contentType,
    'Content-Disposition': contentDisposition(file.fileName),
    ...headers,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...common,
  }
  if (request.method === 'HEAD') {
    response.writeHead(200, allHeaders).end()
    return
  }
  const source = await file.open(range)
  try {
    response.writeHead(range ? 206 : 200, allHeaders)
  } catch (error) {
    source.destroy()
    throw error
  }
  await writeStream(source, response, length)
}

/** Whether the client has the content already. Throws 412 when the client asks for another content. */
function isKnownToClient({ etag: name }: { etag: string }, { headers }: IncomingMessage): boolean {
  const etag = `"${name}"`
  if (!passesIfMatch(etag, headers['if-match'])) {
    throw new AppError('precondition_failed', { message: 'The file is not the one that If-Match names' })
  }
  return matchesEtag(etag, headers['if-none-match'])
}

/** The bytes of a file that a request asks for. */
interface SentPart {
  /** Undefined: the whole file. */
  range?: ByteRange | undefined
  /** Undefined: not known before. */
  length?: number
  headers: Headers
}

const unknownContent: SentPart = { headers: { 'Accept-Ranges': 'none' } }

function partOf({ size, etag: name }: { size: number; etag: string }, request: IncomingMessage): SentPart {
  const etag = `"${name}"`
  const range = request.method === 'GET' ? requestedRange(request, size, etag) : undefined
  const length = range ? range.end - range.start + 1 : size
  return {
    range,
    length,
    headers: {
      'Content-Length': String(length),
      'Accept-Ranges': 'bytes',
      ETag: etag,
      ...(range && { 'Content-Range': `bytes ${range.start}-${range.end}/${size}` }),
    },
  }
}

/** The one range to send; undefined for the whole file. Throws 416 for a range beyond the end. */
function requestedRange({ headers }: IncomingMessage, size: number, etag: string): ByteRange | undefined {
  const { range } = headers
  const condition = headers['if-range']
  // A date never matches, because files have no modification date.
  if (range === undefined || (condition !== undefined && condition !== etag)) return undefined
  // range-parser 1.3.0 is not used, because it finds a suffix longer than the file unsatisfiable.
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/i.exec(range) ?? []
  const isBackward = first !== '' && last !== '' && Number(last) < Number(first)
  if ((first === '' && last === '') || isBackward) return undefined
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Number(last)
  if (start >= size) throw rangeNotSatisfiable(size)
  return { start, end: Math.min(end, size - 1) }
}

/** Writes the stream at the speed of the client. Throws when it fails, or has another length than the one announced. */
async function writeStream(source: Readable, response: ServerResponse, length: number | undefined): Promise<void> {
  const stop = (): void => {
    source.destroy()
  }
  response.once('close', stop)
  if (response.destroyed) stop()
  let sent = 0
  try {
    for await (const chunk of source as AsyncIterable<Buffer | string>) {
      sent += Buffer.byteLength(chunk)
      if (length !== undefined && sent > length) break
      if (!response.write(chunk)) await drained(response)
    }
  } catch (error) {
    if (response.destroyed) return
    throw error
  } finally {
    response.off('close', stop)
    stop()
  }
  if (response.destroyed) return
  if (length !== undefined && sent !== length)
    throw new Error(`a file has ${sent} bytes or more, ${length} were announced`)
  response.end()
}

/** Resolves when the response accepts more bytes or the client has disconnected. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      response.off('drain', settle)
      response.off('close', settle)
      resolve()
    }
    response.on('drain', settle)
    response.on('close', settle)
    if (response.destroyed) settle()
  })
}

/** RFC 6266: a name in ASCII for old clients, and the name itself in UTF-8. */
function contentDisposition(fileName: string): string {
  const ascii = fileName.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(fileName.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}
