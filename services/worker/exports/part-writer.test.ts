import { expect, test } from '@jest/globals'
import { partBytes } from '@sluice/blobs/part-bytes'
import { partBuffer, partWriter } from './part-writer.ts'

const mib = 1024 * 1024

test.each([0, 1, 4 * mib, 8 * mib, 13 * mib - 1, 13 * mib, 40 * mib + 3])(
  'parts of %i bytes are the bytes in order, and none but the last is too small',
  async (length) => {
    const written: Buffer[] = []
    const blobs = {
      uploadPart: (_: unknown, n: number, content: Uint8Array) => {
        written[n - 4] = Buffer.from(content)
        return Promise.resolve({ etag: `e${n}` })
      },
    }
    const { signal } = new AbortController()
    const writer = partWriter(blobs, { name: 'a', uploadId: 'u' }, { firstPart: 4, buffer: partBuffer(), signal })
    const bytes = Buffer.alloc(length)
    for (let at = 0; at < length; at += 997) bytes[at] = at % 251
    for (let at = 0; at < length; at += 3 * mib + 1) await writer.write(bytes.subarray(at, at + 3 * mib + 1))
    const parts = await writer.end()
    expect(writer.bytes).toBe(length)
    expect(Buffer.concat(written).equals(bytes)).toBe(true)
    expect(parts).toStrictEqual(written.map((part, n) => ({ n: n + 4, etag: `e${n + 4}`, bytes: part.length })))
    for (const part of parts.slice(0, -1)) expect(part.bytes).toBe(partBytes(part.n))
    if (parts.length > 1) expect(parts.at(-1)?.bytes).toBeGreaterThanOrEqual(5 * mib)
  },
)

test('parts grow, so that a file may have more than 10,000 of 8 MiB', async () => {
  const written: number[] = []
  const blobs = {
    uploadPart: (_: unknown, n: number, content: Uint8Array) => {
      // Only the ends are looked at: each chunk below is one part.
      written.push(n, content.length, content[0] ?? -1, content.at(-1) ?? -1)
      return Promise.resolve({ etag: 'e' })
    },
  }
  const { signal } = new AbortController()
  const writer = partWriter(blobs, { name: 'a', uploadId: 'u' }, { firstPart: 999, buffer: partBuffer(), signal })
  for (const [value, length] of [8, 8, 16, 16, 1].entries()) await writer.write(Buffer.alloc(length * mib, value))
  await writer.end()
  const parts = [
    [999, 8 * mib, 0, 0],
    [1000, 8 * mib, 1, 1],
    [1001, 16 * mib, 2, 2],
    [1002, 17 * mib, 3, 4],
  ]
  expect(written).toStrictEqual(parts.flat())
})
