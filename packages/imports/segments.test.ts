import { createHash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { allOf, chunksOf, streamOf } from '../../tests/support/chunks.ts'
import { collectGarbageAsServices } from '../../tests/support/service-garbage.ts'
import type { SegmentRecord } from './segment-frames.ts'
import { readSegment, type SegmentedFile, type SegmentLimits, writeSegments } from './segments.ts'

collectGarbageAsServices()

/** The file's segments, stored in memory. */
async function stored(
  file: AsyncIterable<Uint8Array>,
  limits?: SegmentLimits,
): Promise<SegmentedFile & { contents: Buffer[] }> {
  const contents: Buffer[] = []
  const result = await writeSegments(
    file,
    async (n, content) => {
      expect(n).toBe(contents.length)
      contents.push(Buffer.concat(await allOf(content)))
    },
    limits,
  )
  return { ...result, contents }
}

async function recordsOf(content: Buffer, sizes: readonly number[] = [1_000]): Promise<SegmentRecord[]> {
  const { records } = await readSegment(streamOf(...chunksOf(content, sizes)))
  return (await allOf(records)).flat()
}

const asText = ({ number, line, bytes, error }: SegmentRecord): string =>
  `${number} ${line} ${bytes === undefined ? `! ${error}` : bytes.toString()}`

test('a file is split into segments that hold its records with their numbers and lines', async () => {
  const text = '\n"user_id";name\nu1;Ada\n"u2;\n\nu3;"x\ny"\nu4;\n'
  const file = await stored(streamOf(text), { segmentRecordsMax: 2 })
  const layout = { format: 'csv', delimiter: ';', columns: ['user_id', 'name'] }
  expect(file).toMatchObject({
    layout,
    sha256: createHash('sha256').update(text).digest('hex'),
    totalRecords: 4,
    segments: [
      { n: 0, firstRecord: 1, firstLine: 3, records: 2 },
      { n: 1, firstRecord: 3, firstLine: 6, records: 2 },
    ],
  })
  const records = await Promise.all(file.contents.map((content) => recordsOf(content)))
  expect(records.map((each) => each.map(asText))).toEqual([
    ['1 3 u1;Ada', '2 4 ! Invalid format: text follows a quoted field'],
    ['3 6 u3;"x\ny"', '4 8 u4;'],
  ])
  for (const content of file.contents) {
    const segment = await readSegment(streamOf(content))
    expect(segment.layout).toEqual(layout)
    await segment.records.return(undefined)
  }
})

test('gzip makes the same segments and the same hash as the file that it holds', async () => {
  const text = Array.from({ length: 1_000 }, (_, n) => `{"user_id":"u${n}"}`).join('\n')
  expect(await stored(streamOf(gzipSync(text)))).toEqual(await stored(streamOf(...chunksOf(Buffer.from(text), [777]))))
})

test('segments have at most the records and bytes of the limits, and every record is in one', async () => {
  const lines = fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '"', ','), minLength: 1, maxLength: 30 }), {
    minLength: 1,
    maxLength: 60,
  })
  const sizes = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 3 })
  const limits = fc.record({
    segmentRecordsMax: fc.integer({ min: 1, max: 20 }),
    segmentBytesMax: fc.integer({ min: 300, max: 1_000 }),
  })
  await fc.assert(
    fc.asyncProperty(lines, sizes, limits, async (lines, sizes, limits) => {
      const text = Buffer.from(`{"a":1}\n${lines.join('\n')}`)
      const { segments, contents, totalRecords } = await stored(streamOf(...chunksOf(text, sizes)), limits)
      const records = await Promise.all(contents.map((content) => recordsOf(content, sizes)))
      expect(records.flat().map(asText)).toEqual(['{"a":1}', ...lines].map((line, at) => `${at + 1} ${at + 1} ${line}`))
      expect(records.map(({ length }) => length)).toEqual(segments.map(({ records }) => records))
      expect(segments.map(({ firstRecord }) => firstRecord)).toEqual(records.map(([first]) => first?.number))
      expect(segments.map(({ firstLine }) => firstLine)).toEqual(records.map(([first]) => first?.line))
      expect(totalRecords).toBe(lines.length + 1)
      for (const [n, content] of contents.entries()) {
        expect(records[n]?.length).toBeLessThanOrEqual(limits.segmentRecordsMax)
        expect(gunzipSync(content).length).toBeLessThanOrEqual(limits.segmentBytesMax)
      }
    }),
    { numRuns: 200 },
  )
})

test('segments have at most 100,000 records and 32 MiB', async () => {
  const short = await stored(streamOf(`a\n${'x\n'.repeat(250_000)}`))
  expect(short.segments.map(({ records }) => records)).toEqual([100_000, 100_000, 50_000])
  const long = await stored(streamOf(`a\n${`${'x'.repeat(500_000)}\n`.repeat(100)}`))
  expect(long.segments.map(({ records }) => records)).toEqual([67, 33])
})

const headerAlone =
  'file holds no record: its only line is taken for the header, which names the columns (event_type, timestamp_ms for events; user_id for users)'

describe('a file without a record is refused:', () => {
  test.each([
    ['an empty file', '', 'file is empty'],
    ['a header only', 'user_id,name\r\n\n', headerAlone],
    ['a record without a header', 'u1,Ada\n', headerAlone],
    ['an empty list', ' [ ] ', 'file holds no record'],
    ['white space', ' \n', 'file holds no record'],
  ])('%s', async (_what, file, problem) => {
    const refusal = { code: 'invalid_format', message: `Invalid format: ${problem}` }
    await expect(stored(streamOf(file))).rejects.toMatchObject(refusal)
    await expect(stored(streamOf(gzipSync(file)))).rejects.toMatchObject(refusal)
  })
})

describe('an error is thrown as it is', () => {
  const text = `user_id\n${'u\n'.repeat(200_000)}`

  test('of the file, whatever the store makes of it', async () => {
    const cut = gzipSync(text).subarray(0, -10)
    const written = writeSegments(streamOf(...chunksOf(cut, [100])), async (_n, content) => {
      try {
        await allOf(content)
      } catch {
        throw new Error('the store failed')
      }
    })
    await expect(written).rejects.toMatchObject({
      message: 'Invalid format: gzip of the file ends early: the file is not complete',
    })
  })

  test('of the limit of the unpacked file', async () => {
    await expect(stored(streamOf(gzipSync(text)), { unpackedBytesMax: 100_000 })).rejects.toMatchObject({
      code: 'too_large',
    })
  })

  test('of the limit of records, even for the last one', async () => {
    expect((await stored(streamOf(text), { recordsMax: 200_000 })).totalRecords).toBe(200_000)
    for (const recordsMax of [150_000, 199_999]) {
      await expect(stored(streamOf(gzipSync(text)), { recordsMax })).rejects.toMatchObject({
        code: 'too_large',
        message: `File has more than ${recordsMax} records: split it`,
      })
    }
  })

  test('of the store, at once and in the middle', async () => {
    const error = new Error('no space')
    await expect(writeSegments(streamOf(text), () => Promise.reject(error))).rejects.toBe(error)
    const later = writeSegments(streamOf(text), async (n, content) => {
      await allOf(content)
      if (n === 1) throw error
    })
    await expect(later).rejects.toBe(error)
  })

  test('of a store that does not read a segment to its end', async () => {
    await expect(writeSegments(streamOf(text), () => Promise.resolve())).rejects.toThrow('was not stored to its end')
  })
})

describe('a segment that is damaged is refused', () => {
  const segment = (bytes: Buffer) => recordsOf(gzipSync(bytes))

  test('at every byte that it lacks', async () => {
    const { contents } = await stored(streamOf('user_id\nu1\nu2\n'))
    const content = contents[0] ?? Buffer.alloc(0)
    for (let length = 0; length < content.length; length++) {
      await expect(recordsOf(content.subarray(0, length))).rejects.toThrow()
    }
    const frames = gunzipSync(content)
    await expect(segment(frames.subarray(0, -1))).rejects.toThrow('ends early')
    frames[0] = 9
    await expect(segment(frames)).rejects.toThrow('unknown layout')
    await expect(segment(Buffer.alloc(0))).rejects.toThrow()
  })
})

test('a file of many tiny records is refused as soon as its records are too many', async () => {
  const lines = Buffer.from('1\n'.repeat(32 * 1024))
  let read = 0
  async function* file(): AsyncGenerator<Buffer> {
    yield Buffer.from('{\n')
    for (; read < 4_000_000; read += lines.length) yield await Promise.resolve(lines)
  }
  await expect(stored(file(), { recordsMax: 500_000 })).rejects.toMatchObject({ code: 'too_large' })
  expect(read).toBeLessThan(1_500_000)
})

test('memory does not grow with the file', async () => {
  const row = (n: number) =>
    `e${n},page_view,${1_767_000_000_000 + n},"https://example.com/a,b?n=${n}","{""plan"":""pro"",""n"":${n}}"\n`
  const block = Buffer.from(Array.from({ length: 5_000 }, (_, n) => row(n)).join(''))
  async function* file(bytes: number): AsyncGenerator<Buffer> {
    yield Buffer.from('event_id,event_type,timestamp_ms,url,properties\n')
    for (let sent = 0; sent < bytes; sent += block.length) {
      for (const chunk of chunksOf(block, [64 * 1024])) yield await Promise.resolve(chunk)
    }
  }
  let peak = 0
  const write = async (_n: number, content: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of content) if (chunk.length > 0) peak = Math.max(peak, process.memoryUsage.rss())
  }
  await writeSegments(file(20 * 1024 * 1024), write)
  const before = process.memoryUsage.rss()
  peak = 0
  const { totalRecords } = await writeSegments(file(200 * 1024 * 1024), write)
  expect(totalRecords).toBeGreaterThan(1_000_000)
  expect(peak - before).toBeLessThan(64 * 1024 * 1024)
})
