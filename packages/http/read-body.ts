import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { errorCode, invalidFormat, type SluiceError, tooLarge, unsupportedMediaType } from '@sluice/contracts/errors'
import type { BodyRule } from './route.ts'

const gunzipAsync = promisify(gunzip)

/** Throws 415 unless the request's media type and encoding are ones that the route takes. Returns the media type. */
export function checkContentType(request: IncomingMessage, rule: BodyRule): string {
  const [type = '', ...parameters] = (request.headers['content-type'] ?? '')
    .toLowerCase()
    .split(';')
    .map((part) => part.trim())
  if (!rule.types.includes(type)) {
    throw unsupportedMediaType(`Content-Type must be ${rule.types.join(' or ')}`)
  }
  const charset = parameters
    .map((parameter) => parameter.split('=').map((part) => part.trim()))
    .find(([name]) => name === 'charset')?.[1]
    ?.replaceAll('"', '')
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw unsupportedMediaType('Content-Type charset must be utf-8')
  }
  if (!['identity', 'gzip'].includes(encodingOf(request))) {
    throw unsupportedMediaType('Content-Encoding must be gzip or absent')
  }
  return type
}

/**
 * Reads and decompresses a body of at most `rule.maxBytes`, counting after decompression as well as before.
 * Throws 413 beyond that, 400 for broken compression, and a 400 that nobody reads when the client leaves.
 */
export async function readBody(request: IncomingMessage, rule: BodyRule): Promise<Buffer> {
  const raw = await readRaw(request, rule.maxBytes)
  if (encodingOf(request) !== 'gzip') return raw
  try {
    return await gunzipAsync(raw, { maxOutputLength: rule.maxBytes })
  } catch (error) {
    if (errorCode(error) === 'ERR_BUFFER_TOO_LARGE') throw bodyTooLarge(rule.maxBytes)
    throw invalidFormat('body is not valid gzip')
  }
}

function encodingOf(request: IncomingMessage): string {
  return (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
}

function readRaw(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
    discard(request)
    return Promise.reject(bodyTooLarge(maxBytes))
  }
  return new Promise((resolve, reject) => {
    // It left while its key was looked up: no event will come any more.
    if (request.destroyed) reject(invalidFormat('body ended early'))
    const chunks: Buffer[] = []
    let length = 0
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > maxBytes) {
        request.removeAllListeners('data')
        discard(request)
        reject(bodyTooLarge(maxBytes))
        return
      }
      chunks.push(chunk)
    })
    request.on('end', () => {
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, length))
    })
    const fail = (): void => {
      // Every request closes in the end; an error would be made, with its stack, for nothing.
      if (!request.readableEnded) reject(invalidFormat('body ended early'))
    }
    request.on('error', fail)
    request.on('close', fail)
  })
}

/** A refused body is read on to this many bytes: many clients read no answer before they have sent everything. */
const discardedBytesMax = 64 * 1024 * 1024

/** Throws the rest of a body away, so that the answer arrives; cuts the connection when it is endless. */
function discard(request: IncomingMessage): void {
  let length = 0
  request.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length > discardedBytesMax) request.destroy()
  })
}

function bodyTooLarge(maxBytes: number): SluiceError {
  return tooLarge(`Request body is larger than ${maxBytes} bytes`)
}
