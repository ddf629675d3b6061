import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { foreignFiles } from '@sluice/contracts/foreign-files'
import { type AppError, errorCode, invalidFormat, tooLarge } from '@sluice/runtime/errors'
import { fileLimits } from './file-limits.ts'

/** Number of bytes at the start of a file that determine its kind. */
const magicBytesMax = 8
/** Node's default of 16 KiB takes twice the time, because each chunk is a separate task in the thread pool. */
const chunkBytes = 64 * 1024

const gzipMagic = Buffer.from([0x1f, 0x8b])
const asText = 'export it as CSV or JSON in UTF-8'

/** Kinds of files that are not UTF-8 text, by their first bytes, with the message for the client. */
const refusedKinds: readonly { magic: Buffer; problem: string }[] = [
  { magic: Buffer.from('PK'), problem: `file is an Excel workbook or a zip archive: ${asText}` },
  { magic: Buffer.from([0xff, 0xfe]), problem: `file is not UTF-8 but UTF-16: ${asText}` },
  { magic: Buffer.from([0xfe, 0xff]), problem: `file is not UTF-8 but UTF-16: ${asText}` },
  ...foreignFiles.map(({ magic, problem }) => ({ magic: Buffer.from(magic, 'latin1'), problem: `file ${problem}` })),
]

/**
 * The text of an uploaded file. It is decompressed when its first bytes are those of gzip (RFC 1952, with any number of
 * members). The file is read as the text is consumed, in constant memory.
 *
 * Throws AppError `invalid_format` for an empty file, for a kind of file that is not UTF-8 text, and for gzip that is
 * damaged, ends early or has bytes after its end. Throws 413 above `bytesMax` decompressed bytes, and the errors of
 * `file` unchanged.
 */
export async function* unpack(
  file: AsyncIterable<Uint8Array>,
  bytesMax: number = fileLimits.unpackedBytesMax,
): AsyncGenerator<Buffer> {
  const packed = await peek(file)
  const text = await peek(startsWith(packed.first, gzipMagic) ? gunzip(packed.chunks) : packed.chunks)
  let bytes = 0
  for await (const chunk of text.chunks) {
    // Refused within the loop, which closes the file then.
    if (bytes === 0) refuseKind(text.first)
    bytes += chunk.length
    if (bytes > bytesMax) throw tooLarge(`File has more than ${bytesMax} bytes after decompression`)
    yield chunk
  }
}

/**
 * The first bytes of a file, and all of its chunks. The first bytes are fewer than `magicBytesMax` only if the file is
 * shorter.
 */
async function peek(file: AsyncIterable<Uint8Array>): Promise<{ first: Buffer; chunks: AsyncGenerator<Buffer> }> {
  const iterator = file[Symbol.asyncIterator]()
  let first = Buffer.alloc(0)
  let isDone = false
  while (first.length < magicBytesMax && !isDone) {
    const next = await iterator.next()
    if (next.done) isDone = true
    else first = Buffer.concat([first, next.value])
  }
  async function* chunks(): AsyncGenerator<Buffer> {
    try {
      yield first
      while (!isDone) {
        const next = await iterator.next()
        if (next.done) isDone = true
        else yield Buffer.from(next.value.buffer as ArrayBuffer, next.value.byteOffset, next.value.byteLength)
      }
    } finally {
      if (!isDone) await iterator.return?.()
    }
  }
  return { first, chunks: chunks() }
}

function refuseKind(first: Buffer): void {
  if (first.length === 0) throw invalidFormat('file is empty')
  if (startsWith(first, gzipMagic)) throw invalidFormat('file is compressed with gzip twice')
  const refused = refusedKinds.find(({ magic }) => startsWith(first, magic))
  if (refused) throw invalidFormat(refused.problem)
  // ASCII in UTF-16 or UTF-32 without a byte order mark: every other byte is 0.
  if (first[0] === 0 || first[1] === 0) throw invalidFormat(`file is not text in UTF-8: ${asText}`)
}

function startsWith(bytes: Buffer, magic: Buffer): boolean {
  return bytes.subarray(0, magic.length).equals(magic)
}

async function* gunzip(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let given = 0
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      given += chunk.length
      yield chunk
    }
  }
  const decompressor = createGunzip({ chunkSize: chunkBytes })
  // The iteration below reports the failures of both streams.
  pipeline(counted(), decompressor, () => undefined)
  try {
    for await (const chunk of decompressor) yield chunk as Buffer
    // Node ignores bytes after the last member, so records there would be lost without an error.
    if (given !== decompressor.bytesWritten) throw invalidFormat('file has data after the end of its gzip')
  } catch (error) {
    throw gzipProblem(error) ?? error
  } finally {
    decompressor.destroy()
  }
}

/** The 400 for an error of zlib; undefined for other errors, such as too little memory. */
function gzipProblem(error: unknown): AppError | undefined {
  const code = errorCode(error)
  if (code === 'Z_BUF_ERROR') return invalidFormat('gzip of the file ends early: the file is not complete')
  if (code === 'Z_DATA_ERROR' || code === 'Z_NEED_DICT') return invalidFormat('gzip of the file is damaged')
  return undefined
}
