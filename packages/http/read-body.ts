import type { IncomingMessage } from 'node:http'
import { mediaTypesOf } from '@sluice/api/operation'
import { type ContentEncoding, contentEncodings } from '@sluice/contracts/media-types'
import { invalidFormat, unsupportedMediaType } from '@sluice/runtime/errors'
import { bodyTooLarge, decompress } from './decompress.ts'
import { HttpError } from './http-error.ts'
import type { RouteBody } from './route.ts'

/**
 * Throws 415 unless the route accepts the media type, charset and encoding of the request. A request without a
 * `Content-Type` has the type `absent`. Returns the media type.
 */
export function checkContentType(request: IncomingMessage, rule: RouteBody, absent = ''): string {
  const [type = '', ...parameters] = (request.headers['content-type'] ?? absent)
    .toLowerCase()
    .split(';')
    .map((part) => part.trim())
  const types = mediaTypesOf(rule)
  if (!types.includes(type)) {
    throw unsupportedMediaType(`Content-Type must be ${types.join(' or ')}`)
  }
  const charset = parameters
    .map((parameter) => parameter.split('=').map((part) => part.trim()))
    .find(([name]) => name === 'charset')?.[1]
    ?.replaceAll('"', '')
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw unsupportedMediaType('Content-Type charset must be utf-8')
  }
  // Throws for an encoding that is not accepted.
  const encoding = encodingOf(request)
  if (encoding !== undefined && rule.kind === 'multipart') {
    throw unsupportedEncoding('absent for multipart/form-data', 'identity')
  }
  return type
}

/** The 415 for a content coding; `Accept-Encoding` tells it from one for the media type (RFC 9110, 15.5.16). */
function unsupportedEncoding(allowed: string, accepted: string): HttpError {
  const message = `Content-Encoding must be ${allowed}`
  return new HttpError('unsupported_media_type', message, { 'Accept-Encoding': accepted })
}

/** Whether the headers of a request announce a body (RFC 9112, 6.3). A chunked body may still be empty. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Reserves memory for a part of a body before it is kept. Throws the 503 when there is no memory for the part. */
export type ReserveMemory = (bytes: number) => void

/**
 * Decompresses a body that was read, to at most `maxBytes`. The bodies of each `sender` take turns with those of others.
 * Throws 413 for a larger body, 400 for broken compression, 503 and the error of `requireInTime` for a body whose turn
 * comes too late, and the error of `reserve`.
 */
export async function decompressBody(
  raw: Buffer,
  encoding: ContentEncoding,
  { reserve, ...options }: { sender: string; maxBytes: number; reserve: ReserveMemory; requireInTime: () => void },
): Promise<Buffer> {
  const bytes = await decompress(raw, encoding, options)
  reserve(bytes.length)
  return bytes
}

/**
 * The encoding of a body that was read: the value of `Content-Encoding`, or gzip for a `text/plain` body that begins
 * with the magic number of gzip. No JSON begins with these bytes. Browsers send compressed beacons without the header,
 * because the header would require a preflight.
 */
export function encodingOfBody(request: IncomingMessage, type: string, bytes: Buffer): ContentEncoding | undefined {
  const isGzip = type === 'text/plain' && bytes[0] === 0x1f && bytes[1] === 0x8b
  return encodingOf(request) ?? (isGzip ? 'gzip' : undefined)
}

/** The encoding of the headers; undefined without one. Throws 415 for an unknown encoding and for several. */
function encodingOf(request: IncomingMessage): ContentEncoding | undefined {
  const header = request.headers['content-encoding']
  if (header === undefined) return undefined
  const name = header.trim().toLowerCase()
  if (name === '' || name === 'identity') return undefined
  if (name === 'x-gzip') return 'gzip'
  const encoding = contentEncodings.find((each) => each === name)
  if (encoding === undefined) {
    throw unsupportedEncoding(`${contentEncodings.join(', ')} or absent`, contentEncodings.join(', '))
  }
  return encoding
}

/**
 * After `joinedChunks` chunks, these are joined if they have at most `joinedBytesMax` bytes. A Buffer takes some
 * hundred bytes in addition to its content, which are not reserved. For a body in chunks of one byte, they would add up
 * to gigabytes.
 */
const joinedChunks = 256
const joinedBytesMax = 64 * 1024

/**
 * Reads a body of at most `maxBytes` as it was sent. Throws 413 for a larger body, 400 when the client disconnects, and
 * the error of `reserve`.
 */
export function readBody(request: IncomingMessage, maxBytes: number, reserve: ReserveMemory): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
    discard(request)
    return Promise.reject(bodyTooLarge(maxBytes))
  }
  return new Promise((resolve, reject) => {
    // The client may disconnect while its key is looked up. No further event is emitted then.
    if (request.destroyed) reject(invalidFormat('body ended early'))
    let chunks: Buffer[] = []
    let length = 0
    /** Number and bytes of the chunks since the last join. */
    let unjoined = 0
    let unjoinedBytes = 0
    const take = (chunk: Buffer): void => {
      length += chunk.length
      try {
        if (length > maxBytes) throw bodyTooLarge(maxBytes)
        reserve(chunk.length)
      } catch (refusal) {
        chunks = []
        request.off('data', take)
        discard(request)
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- What was thrown is passed on.
        reject(refusal)
        return
      }
      chunks.push(chunk)
      unjoined++
      unjoinedBytes += chunk.length
      if (unjoined < joinedChunks) return
      if (unjoinedBytes <= joinedBytesMax) chunks.push(Buffer.concat(chunks.splice(-joinedChunks)))
      unjoined = unjoinedBytes = 0
    }
    request.on('data', take)
    request.on('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, length)))
    const fail = (): void => {
      // Every request emits `close`: the error, with its costly stack, is created only if the body has not ended.
      if (!request.readableEnded) reject(invalidFormat('body ended early'))
    }
    request.on('error', fail)
    request.on('close', fail)
  })
}

/** Bytes of a refused body that are still read: many clients read no response before they have sent everything. */
export const discardedBytesMax = 64 * 1024 * 1024

/**
 * Reads the rest of a body and throws it away, so that the response arrives; closes the connection beyond the limit.
 */
export function discard(request: IncomingMessage): void {
  let length = 0
  request.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length > discardedBytesMax) request.destroy()
  })
}
