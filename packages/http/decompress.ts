import { promisify } from 'node:util'
import {
  brotliDecompress,
  constants,
  gunzip,
  inflate,
  inflateRaw,
  type InputType,
  zstdDecompress,
  type ZlibOptions,
  type ZstdOptions,
} from 'node:zlib'
import type { ContentEncoding } from '@sluice/contracts/bodies'
import { errorCode, invalidFormat, type SluiceError, tooLarge } from '@sluice/contracts/errors'

type Decompressor = (
  bytes: InputType,
  options: Pick<ZlibOptions & ZstdOptions, 'maxOutputLength' | 'chunkSize' | 'info' | 'params'>,
) => Promise<unknown>

const gunzipAsync: Decompressor = promisify(gunzip)
const inflateAsync: Decompressor = promisify(inflate)
const inflateRawAsync: Decompressor = promisify(inflateRaw)
const brotliAsync: Decompressor = promisify(brotliDecompress)
const zstdAsync: Decompressor = promisify(zstdDecompress)

/** Node's default of 16 KiB costs twice the time: each chunk is a trip to a thread and back. */
const chunkBytes = 64 * 1024

/** Every decoder must take windows of 8 MiB, encoders must not ask for more (RFC 9659). */
const zstdWindowLogMin = 23

/**
 * Decompresses a whole body, to `maxBytes` at most: it stops there, whatever is still to come.
 * Throws 413 beyond that; 400 that names the encoding when the bytes are broken, end early or go on after the end.
 * Gzip may have several members (RFC 1952), which are one body; a second zstd frame is refused.
 */
export function decompress(raw: Buffer, encoding: ContentEncoding, maxBytes: number): Promise<Buffer> {
  return inTurn(async () => {
    const options = {
      maxOutputLength: maxBytes,
      chunkSize: chunkBytes,
      info: true,
      params: paramsOf(encoding, maxBytes),
    }
    try {
      const { buffer, engine } = (await decompressorOf(encoding, raw)(raw, options)) as {
        buffer: Buffer
        engine: { bytesWritten: number }
      }
      // Node leaves out what follows in silence: an event that came in a second frame would be lost after its 202.
      if (engine.bytesWritten !== raw.length) throw invalidFormat(`body goes on after the end of its ${encoding}`)
      return buffer
    } catch (error) {
      const code = errorCode(error)
      if (code === 'ERR_BUFFER_TOO_LARGE') throw bodyTooLarge(maxBytes)
      if (code === 'ZSTD_error_frameParameter_windowTooLarge') {
        throw invalidFormat(`body needs a larger zstd window than ${2 ** zstdWindowLog(maxBytes)} bytes`)
      }
      // Memory that we lack is no fault of the body.
      if (code === undefined || /MEM|ALLOC|INIT/i.test(code)) throw error
      throw invalidFormat(`body is not valid ${encoding}`)
    }
  })
}

export function bodyTooLarge(maxBytes: number): SluiceError {
  return tooLarge(`Request body is larger than ${maxBytes} bytes`)
}

function decompressorOf(encoding: ContentEncoding, raw: Buffer): Decompressor {
  switch (encoding) {
    case 'gzip':
      return gunzipAsync
    case 'deflate':
      return hasZlibHeader(raw) ? inflateAsync : inflateRawAsync
    case 'br':
      return brotliAsync
    case 'zstd':
      return zstdAsync
  }
}

/**
 * HTTP's deflate is zlib's format (RFC 1950); some clients send bare deflate (RFC 1951) under its name. The two bytes of
 * a zlib header name the method 8 and are a multiple of 31. Bare deflate can't begin like that: it would be a stored
 * block with bits set that encoders leave 0.
 */
function hasZlibHeader(raw: Buffer): boolean {
  return raw.length >= 2 && ((raw[0] ?? 0) & 15) === 8 && raw.readUInt16BE(0) % 31 === 0
}

function paramsOf(encoding: ContentEncoding, maxBytes: number): Record<number, number> {
  return encoding === 'zstd' ? { [constants.ZSTD_d_windowLogMax]: zstdWindowLog(maxBytes) } : {}
}

/** Room for 8 MiB, or for the whole body: encoders that know its length make one window of it. */
function zstdWindowLog(maxBytes: number): number {
  return Math.max(zstdWindowLogMin, Math.ceil(Math.log2(maxBytes)))
}

/**
 * As many as libuv's pool has threads. More at once would not be faster, but each holds up to its limit in memory: a
 * body of 10 KiB may unpack to 10 MiB.
 */
const runningMax = 4
// The pool is the process's own, and so is the queue before it.
let running = 0
const waiting: (() => void)[] = []

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running < runningMax) running++
  else {
    await new Promise<void>((resolve) => {
      waiting.push(resolve)
    })
  }
  try {
    return await work()
  } finally {
    // Its turn goes straight to the next one.
    const next = waiting.shift()
    if (next) next()
    else running--
  }
}
