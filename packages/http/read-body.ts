import type { IncomingMessage } from 'node:http'
import { type ContentEncoding, contentEncodings } from '@sluice/contracts/bodies'
import { invalidFormat, type SluiceError, unsupportedMediaType } from '@sluice/contracts/errors'
import { bodyTooLarge, decompress } from './decompress.ts'
import type { BodyRule as Body } from '@sluice/contracts/operation'

/** Of an operation's body, what reading it needs. */
type BodyRule = Pick<Body, 'types' | 'maxBytes'>

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
  // Throws for others.
  encodingOf(request)
  return type
}

/** Told of each part of a body before it is kept; the 503 when there is no memory for it. */
export type Hold = (bytes: number) => SluiceError | undefined

/**
 * Reads and decompresses a body of at most `rule.maxBytes`, counting after decompression as well as before.
 * Throws 413 beyond that, 400 for broken compression, a 400 that nobody reads when the client leaves, and what `hold`
 * refuses with.
 */
export async function readBody(request: IncomingMessage, rule: BodyRule, hold: Hold): Promise<Buffer> {
  const raw = await readRaw(request, rule.maxBytes, hold)
  const encoding = encodingOf(request)
  if (encoding === undefined) return raw
  const bytes = await decompress(raw, encoding, rule.maxBytes)
  const refusal = hold(bytes.length)
  if (refusal) throw refusal
  return bytes
}

/** Undefined: the body is as it is. Throws 415 for an encoding that is not taken, or more than one. */
function encodingOf(request: IncomingMessage): ContentEncoding | undefined {
  const header = request.headers['content-encoding']
  if (header === undefined) return undefined
  const name = header.trim().toLowerCase()
  if (name === 'identity') return undefined
  if (name === 'x-gzip') return 'gzip'
  const encoding = contentEncodings.find((each) => each === name)
  if (encoding === undefined) {
    throw unsupportedMediaType(`Content-Encoding must be ${contentEncodings.join(', ')} or absent`)
  }
  return encoding
}

function readRaw(request: IncomingMessage, maxBytes: number, hold: Hold): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) {
    discard(request)
    return Promise.reject(bodyTooLarge(maxBytes))
  }
  return new Promise((resolve, reject) => {
    // It left while its key was looked up: no event will come any more.
    if (request.destroyed) reject(invalidFormat('body ended early'))
    const chunks: Buffer[] = []
    let length = 0
    const take = (chunk: Buffer): void => {
      length += chunk.length
      const refusal = length > maxBytes ? bodyTooLarge(maxBytes) : hold(chunk.length)
      if (refusal === undefined) {
        chunks.push(chunk)
        return
      }
      chunks.length = 0
      request.off('data', take)
      discard(request)
      reject(refusal)
    }
    request.on('data', take)
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
