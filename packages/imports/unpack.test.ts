import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { waitUntil } from '@sluice/runtime/wait-until'
import { chunksOf, streamOf } from '../../tests/support/chunks.ts'
import { unpack } from './unpack.ts'

async function unpacked(file: AsyncIterable<Uint8Array>, bytesMax?: number): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of unpack(file, bytesMax)) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

const text = 'user_id,name\n' + Array.from({ length: 300 }, (_, n) => `u${n},Ada ${n * n}\n`).join('')

describe('the text of a file is read', () => {
  test('as it is', async () => {
    expect(await unpacked(streamOf(text))).toBe(text)
    expect(await unpacked(streamOf('a'))).toBe('a')
  })

  test('from gzip of one and of several members, whatever the chunks', async () => {
    const half = Math.floor(text.length / 2)
    const two = Buffer.concat([gzipSync(text.slice(0, half)), gzipSync(''), gzipSync(text.slice(half))])
    for (const file of [gzipSync(text), two]) {
      for (const size of [1, 2, 3, 7, 10, 64, file.length]) {
        expect(await unpacked(streamOf(...chunksOf(file, [size])))).toBe(text)
      }
      // Every boundary, above all those at the end of a member.
      for (let cut = 1; cut < file.length; cut++) {
        expect(await unpacked(streamOf(file.subarray(0, cut), file.subarray(cut)))).toBe(text)
      }
    }
  })
})

describe('a file is refused that is', () => {
  test.each([
    ['empty', '', 'file is empty'],
    ['empty gzip', gzipSync(''), 'file is empty'],
    ['gzip twice', gzipSync(gzipSync(text)), 'file is compressed with gzip twice'],
    [
      'an XLSX',
      'PK\x03\x04\x14\0\x06\0',
      'file is an Excel workbook or a zip archive: export it as CSV or JSON in UTF-8',
    ],
    [
      'an XLSX in gzip',
      gzipSync('PK\x03\x04\x14\0'),
      'file is an Excel workbook or a zip archive: export it as CSV or JSON in UTF-8',
    ],
    [
      'UTF-16 with a mark',
      Buffer.from('\uFEFFuser_id\nu1', 'utf16le'),
      'file is not UTF-8 but UTF-16: export it as CSV or JSON in UTF-8',
    ],
    [
      'UTF-16, big-endian',
      Buffer.from('\uFEFFuser_id\nu1', 'utf16le').swap16(),
      'file is not UTF-8 but UTF-16: export it as CSV or JSON in UTF-8',
    ],
    [
      'UTF-16 without a mark',
      Buffer.from('user_id\nu1', 'utf16le'),
      'file is not text in UTF-8: export it as CSV or JSON in UTF-8',
    ],
    ['Parquet', 'PAR1\x15\x04', 'file is Parquet: export it as CSV or JSON in UTF-8'],
    ['zstd', zstdCompressSync(text), 'file is compressed with zstd: unpack it, or use gzip'],
  ])('%s', async (_what, file, problem) => {
    const bytes = Buffer.from(file as string, 'latin1')
    const refusal = { code: 'invalid_format', message: `Invalid format: ${problem}` }
    await expect(unpacked(streamOf(bytes))).rejects.toMatchObject(refusal)
    await expect(unpacked(streamOf(...chunksOf(bytes, [1])))).rejects.toMatchObject(refusal)
  })

  test('gzip that ends early, wherever', async () => {
    const file = Buffer.concat([gzipSync(text.slice(0, 100)), gzipSync(text.slice(100))])
    const firstMember = gzipSync(text.slice(0, 100)).length
    for (let length = 2; length < file.length; length++) {
      if (length === firstMember) continue
      await expect(unpacked(streamOf(...chunksOf(file.subarray(0, length), [50])))).rejects.toMatchObject({
        code: 'invalid_format',
        message: 'Invalid format: gzip of the file ends early: the file is not complete',
      })
    }
  })

  test('gzip that is damaged', async () => {
    const file = gzipSync(text)
    file[file.length - 6] = (file[file.length - 6] ?? 0) ^ 1
    await expect(unpacked(streamOf(file))).rejects.toMatchObject({
      code: 'invalid_format',
      message: 'Invalid format: gzip of the file is damaged',
    })
  })

  test('gzip that goes on after its end', async () => {
    for (const rest of [Buffer.alloc(20), Buffer.from('\0user_id\nu2'), Buffer.from('user_id\nu2')]) {
      for (const file of [streamOf(gzipSync(text), rest), streamOf(Buffer.concat([gzipSync(text), rest]))]) {
        await expect(unpacked(file)).rejects.toMatchObject({ code: 'invalid_format' })
      }
    }
  })

  test('random bytes after the magic of gzip, without ever hanging', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 60 }), async (bytes) => {
        const file = Buffer.concat([Buffer.from([0x1f, 0x8b]), bytes])
        await expect(unpacked(streamOf(...chunksOf(file, [7])))).rejects.toMatchObject({ code: 'invalid_format' })
      }),
    )
  })
})

test('a gzip bomb is stopped at the limit, and no more of it is read', async () => {
  const member = gzipSync(Buffer.alloc(64 * 1024 * 1024, 'x'))
  const bomb = Buffer.concat(Array.from({ length: 8 }, () => member))
  let read = 0
  let isClosed = false
  async function* file(): AsyncGenerator<Buffer> {
    try {
      for (const chunk of chunksOf(bomb, [1_000])) {
        read += chunk.length
        yield await Promise.resolve(chunk)
      }
    } finally {
      isClosed = true
    }
  }
  await expect(unpacked(file(), 1024 * 1024)).rejects.toMatchObject({
    code: 'too_large',
    message: 'File has more than 1048576 bytes after decompression',
  })
  expect(read).toBeLessThan(bomb.length)
  await waitUntil(() => isClosed, 'the file is closed')
  expect(await unpacked(streamOf(gzipSync('x'.repeat(1_000))), 1_000)).toHaveLength(1_000)
  await expect(unpacked(streamOf('x'.repeat(1_001)), 1_000)).rejects.toMatchObject({ code: 'too_large' })
})

test('an error of the file is thrown as it is', async () => {
  const error = new Error('the client has disconnected')
  async function* file(first: Buffer): AsyncGenerator<Buffer> {
    yield await Promise.resolve(first)
    throw error
  }
  await expect(unpacked(file(gzipSync(text).subarray(0, 100)))).rejects.toBe(error)
  await expect(unpacked(file(Buffer.from(text)))).rejects.toBe(error)
})
