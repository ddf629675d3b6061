import { promisify } from 'node:util'
import {
  brotliDecompress,
  constants,
  gunzip,
  inflate,
  inflateRaw,
  type InputType,
  type ZlibOptions,
  zstdDecompress,
  type ZstdOptions,
} from 'node:zlib'
import type { ContentEncoding } from '@sluice/contracts/media-types'
import { type AppError, errorCode, invalidFormat, tooLarge } from '@sluice/runtime/errors'
import { createFairQueue } from '@sluice/runtime/fair-queue'

type Decompressor = (
  bytes: InputType,
  options: Pick<ZlibOptions & ZstdOptions, 'maxOutputLength' | 'chunkSize' | 'info' | 'params'>,
) => Promise<unknown>

const gunzipAsync: Decompressor = promisify(gunzip)
const inflateAsync: Decompressor = promisify(inflate)
const inflateRawAsync: Decompressor = promisify(inflateRaw)
const brotliAsync: Decompressor = promisify(brotliDecompress)
const zstdAsync: Decompressor = promisify(zstdDecompress)

/** Node's default of 16 KiB takes twice the time: each chunk is a task of its own in the thread pool. */
const chunkBytes = 64 * 1024

/** Log2 of 8 MiB, the window that every decoder must support and no encoder may exceed (RFC 9659). */
const zstdWindowLogMin = 23

/**
 * Decompresses a whole body of at most `maxBytes` and stops there. Throws the error of `requireInTime` when the body's
 * turn has come; 413 beyond the limit; 400 that names the encoding when the bytes are broken, end early or
 * continue after the end. The members of a gzip file (RFC 1952) are joined to one body. A second zstd frame is refused.
 * Bodies of different senders take turns.
 */
export function decompress(
  raw: Buffer,
  encoding: ContentEncoding,
  { sender, maxBytes, requireInTime }: { sender: string; maxBytes: number; requireInTime: () => void },
): Promise<Buffer> {
  return queue.run(sender, undefined, async () => {
    requireInTime()
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
      // Node ignores silently what follows the first frame: an event in a second frame would be lost after its 202.
      if (engine.bytesWritten !== raw.length) throw invalidFormat(`body has data after the end of its ${encoding}`)
      return buffer
    } catch (error) {
      const code = errorCode(error)
      if (code === 'ERR_BUFFER_TOO_LARGE') throw bodyTooLarge(maxBytes)
      if (code === 'ZSTD_error_frameParameter_windowTooLarge') {
        throw invalidFormat(`body needs a larger zstd window than ${2 ** zstdWindowLog(maxBytes)} bytes`)
      }
      // A lack of memory is not an error of the body.
      if (code === undefined || /MEM|ALLOC|INIT/i.test(code)) throw error
      throw invalidFormat(`body is not valid ${encoding}`)
    }
  })
}

/** The AppError `too_large` for a body of more than `maxBytes` bytes, before or after decompression. */
export function bodyTooLarge(maxBytes: number): AppError {
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
 * The encoding `deflate` of HTTP is the zlib format (RFC 1950); some clients send raw deflate (RFC 1951) instead. The
 * two bytes of a zlib header contain the method 8 and are a multiple of 31. Raw deflate can't begin like that: its
 * first block would be a stored block with padding bits that encoders leave 0.
 */
function hasZlibHeader(raw: Buffer): boolean {
  return raw.length >= 2 && ((raw[0] ?? 0) & 15) === 8 && raw.readUInt16BE(0) % 31 === 0
}

function paramsOf(encoding: ContentEncoding, maxBytes: number): Record<number, number> {
  return encoding === 'zstd' ? { [constants.ZSTD_d_windowLogMax]: zstdWindowLog(maxBytes) } : {}
}

/** A window of 8 MiB, or of the whole body: encoders that know the length of the body may use one window for it. */
function zstdWindowLog(maxBytes: number): number {
  return Math.max(zstdWindowLogMin, Math.ceil(Math.log2(maxBytes)))
}

/**
 * Runs as many decompressions at a time as libuv's pool has threads. More would not be faster, and each holds up to its
 * limit in memory: a body of 10 KiB may decompress to 10 MiB. One thread is always left to other senders, because a
 * refused body of 30 bytes, which costs its sender nothing, may take as long as a batch. The thread pool belongs to the
 * whole process, and so does the queue.
 */
const queue = createFairQueue({
  concurrencyMax: 4,
  concurrencyPerKeyMax: 3,
  // The memory of the waiting bodies is limited (admission.ts).
  queuedPerKeyMax: Infinity,
  // Longer than `requireInTime` allows, which counts what it refuses.
  queueTimeoutMs: 2_000,
})
