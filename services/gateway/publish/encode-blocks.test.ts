import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Block } from '@sluice/contracts/block'
import { encodeBlocks, type EncodedEvent } from './encode-blocks.ts'

const kibibyte = 1024
const into = { partitions: 8, freePartition: 3 }

function event(line: string, keyHash?: number, undated = false): EncodedEvent {
  return { line: `${line}\n`, keyHash, undated }
}

function linesOf({ payload }: Block): string[] {
  return payload.toString().split('\n').slice(0, -1)
}

test('no events, no blocks', () => {
  expect(encodeBlocks([], into)).toStrictEqual([])
})

test('events with a client’s id go to the partition of their hash, the others to the free one', () => {
  const blocks = encodeBlocks([event('a', 13), event('b'), event('c', 0xffffffff), event('d', 5)], into)
  expect(blocks.map((block) => [block.partition, linesOf(block)])).toStrictEqual([
    [5, ['a', 'd']],
    [3, ['b']],
    [7, ['c']],
  ])
})

test('dated and undated events of one partition lie in blocks of their own, which say so', () => {
  const blocks = encodeBlocks([event('a', 3, true), event('b'), event('c', 3), event('d', 3, true)], into)
  expect(blocks).toStrictEqual([
    { partition: 3, headers: { v: 1, rows: 2, bytes: 4, undated: true }, payload: Buffer.from('a\nd\n') },
    { partition: 3, headers: { v: 1, rows: 2, bytes: 4 }, payload: Buffer.from('b\nc\n') },
  ])
})

test.each(['x', 'ü', '漢', '\u{1F600}'])(
  'a block has at most 512 KiB, in bytes of UTF-8, of lines of %s',
  (character) => {
    const line = character.repeat(2_000)
    const events = Array.from({ length: 1_000 }, () => event(line))
    const blocks = encodeBlocks(events, into)
    for (const { payload } of blocks) expect(payload.length).toBeLessThanOrEqual(512 * kibibyte)
    const bytes = 1_000 * (Buffer.byteLength(line) + 1)
    expect(blocks).toHaveLength(Math.ceil(1_000 / Math.floor((512 * kibibyte) / (bytes / 1_000))))
    expect(blocks.flatMap(linesOf)).toStrictEqual(events.map(() => line))
  },
)

test('an event larger than that has a block to itself', () => {
  const blocks = encodeBlocks([event('a'), event('x'.repeat(600 * kibibyte)), event('b')], into)
  expect(blocks.map(({ headers }) => headers.rows)).toStrictEqual([1, 1, 1])
})

test('every event is in exactly one block, in order, where it belongs; headers tell the truth', () => {
  const events = fc.array(
    fc.record({
      line: fc.string({ unit: 'grapheme', maxLength: 40 }).map((text) => `${JSON.stringify(text)}\n`),
      keyHash: fc.option(fc.nat(0xffffffff), { nil: undefined }),
      undated: fc.boolean(),
    }),
    { maxLength: 50 },
  )
  fc.assert(
    fc.property(events, fc.integer({ min: 1, max: 12 }), fc.nat(), (sent, partitions, turn) => {
      const freePartition = turn % partitions
      const blocks = encodeBlocks(sent, { partitions, freePartition })
      const expected = new Map<string, string[]>()
      for (const { line, keyHash, undated } of sent) {
        const place = `${keyHash === undefined ? freePartition : keyHash % partitions} ${undated}`
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
    }),
  )
})
