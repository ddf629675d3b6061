import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Block } from './block.ts'
import { blockEncoder, type LogRow } from './encode-blocks.ts'

const kibibyte = 1024
const into = { partitions: 8, defaultPartition: 3 }

function event(line: string, keyHash?: number, undated = false): LogRow {
  return { line: `${line}\n`, keyHash, undated }
}

/** Encodes events that arrive in requests of `perRequest` events each. */
function encodeBlocks(
  events: readonly LogRow[],
  into: { partitions: number; defaultPartition: number },
  perRequest = 1_000,
): Block[] {
  const encoder = blockEncoder(into)
  for (let from = 0; from < events.length; from += perRequest) encoder.add(events.slice(from, from + perRequest))
  return encoder.finish()
}

function linesOf({ payload }: Block): string[] {
  return payload.toString().split('\n').slice(0, -1)
}

test('without events there are no blocks', () => {
  expect(encodeBlocks([], into)).toStrictEqual([])
})

test('events with an id of the client go to the partition of its hash, and others to the default partition', () => {
  const blocks = encodeBlocks([event('a', 13), event('b'), event('c', 0xffffffff), event('d', 5)], into)
  expect(blocks.map((block) => [block.partition, linesOf(block)])).toStrictEqual([
    [5, ['a', 'd']],
    [3, ['b']],
    [7, ['c']],
  ])
})

test('each request is told the bytes and the partitions of its events', () => {
  const encoder = blockEncoder(into)
  expect(encoder.add([event('a', 13)])).toEqual({ bytes: 2, partitions: [5] })
  expect(encoder.add([event('é')])).toEqual({ bytes: 3, partitions: [3] })
  const { bytes, partitions } = encoder.add([event('a', 5), event('b'), event('c', 13), event('d', 5, true)])
  expect(bytes).toBe(8)
  expect([...new Set(partitions)]).toEqual([5, 3])
})

test('dated and undated events of one partition have separate blocks with their kind in the headers', () => {
  const blocks = encodeBlocks([event('a', 3, true), event('b'), event('c', 3), event('d', 3, true)], into)
  expect(blocks).toStrictEqual([
    { partition: 3, headers: { v: 1, rows: 2, bytes: 4, undated: true }, payload: Buffer.from('a\nd\n') },
    { partition: 3, headers: { v: 1, rows: 2, bytes: 4 }, payload: Buffer.from('b\nc\n') },
  ])
})

test.each(
  ['x', 'ü', '漢', '\u{1F600}'].flatMap((character) =>
    [1, 7, 1_000].map((perRequest) => [character, perRequest] as const),
  ),
)(
  'a block has at most 512 KiB, in bytes of UTF-8, and not much less: lines of %s in requests of %i',
  (character, perRequest) => {
    const events = Array.from({ length: 1_000 }, (_, n) => event(`${n}${character.repeat(2_000)}`))
    const blocks = encodeBlocks(events, into, perRequest)
    for (const { payload } of blocks) expect(payload.length).toBeLessThanOrEqual(512 * kibibyte)
    const bytes = blocks.reduce((sum, { payload }) => sum + payload.length, 0)
    expect(blocks.length).toBeLessThanOrEqual(Math.ceil(bytes / (256 * kibibyte)))
    expect(blocks.flatMap(linesOf)).toStrictEqual(events.map(({ line }) => line.slice(0, -1)))
  },
)

test('an event larger than the limit has its own block', () => {
  const blocks = encodeBlocks([event('a'), event('x'.repeat(600 * kibibyte)), event('b')], into)
  expect(blocks.map(({ headers }) => headers.rows)).toStrictEqual([1, 1, 1])
})

test('every event is in exactly one block of its partition, in order, and the headers are correct', () => {
  const events = fc.array(
    fc.record({
      line: fc.string({ unit: 'grapheme', maxLength: 40 }).map((text) => `${JSON.stringify(text)}\n`),
      keyHash: fc.option(fc.nat(0xffffffff), { nil: undefined }),
      timestamp: fc.constant(0),
      undated: fc.boolean(),
    }),
    { maxLength: 50 },
  )
  fc.assert(
    fc.property(
      events,
      fc.integer({ min: 1, max: 12 }),
      fc.nat(),
      fc.integer({ min: 1, max: 60 }),
      (sent, partitions, turn, perRequest) => {
        const defaultPartition = turn % partitions
        const blocks = encodeBlocks(sent, { partitions, defaultPartition }, perRequest)
        const expected = new Map<string, string[]>()
        for (const { line, keyHash, undated } of sent) {
          const place = `${keyHash === undefined ? defaultPartition : keyHash % partitions} ${undated}`
          expected.set(place, [...(expected.get(place) ?? []), line.slice(0, -1)])
        }
        const found = blocks.map((block): [string, string[]] => {
          const { partition, headers, payload } = block
          expect(headers.v).toBe(1)
          expect(headers.rows).toBe(linesOf(block).length)
          expect(headers.bytes).toBe(payload.length)
          return [`${partition} ${headers.undated === true}`, linesOf(block)]
        })
        expect(new Map(found)).toStrictEqual(expected)
        expect(found).toHaveLength(expected.size)
      },
    ),
  )
})
