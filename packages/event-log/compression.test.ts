import { expect, it } from '@jest/globals'
import type { Block } from './block.ts'
import { compressBlocks, decompressBlock } from './compression.ts'
import { block } from './conformance/collect.ts'

const rows = Buffer.from('{"site_id":"shop","event_type":"page_view"}\n'.repeat(1000))
const compressible: Block = {
  partition: 3,
  headers: { v: 1, rows: 1000, bytes: rows.length, undated: true },
  payload: rows,
}

it('large blocks are stored compressed, keep rows and bytes in their headers, and are read unchanged', () => {
  const [stored] = compressBlocks([compressible])
  expect(stored?.headers).toEqual({ v: 1, rows: 1000, bytes: rows.length, undated: true, encoding: 'zstd' })
  expect(stored?.payload.length).toBeLessThan(rows.length / 10)
  expect(stored && decompressBlock(stored)).toEqual(compressible)
})

it('small blocks and incompressible blocks are stored unchanged', () => {
  const blocks = [block(0, 'small'), block(1, 'random', {}, 100_000)]
  expect(compressBlocks(blocks)).toEqual(blocks)
  expect(blocks.map(decompressBlock)).toEqual(blocks)
})

it.each([
  ['no zstd at all', { payload: Buffer.from('no zstd') }],
  ['a shorter payload than promised', { headers: { bytes: rows.length + 1 } }],
  ['a longer one', { headers: { bytes: rows.length - 1 } }],
  ['a length that no block has', { headers: { bytes: Number.MAX_SAFE_INTEGER } }],
])(
  'a record with %s is returned unchanged as a block of version 0',
  (_, { headers, payload }: { headers?: object; payload?: Buffer }) => {
    const [stored] = compressBlocks([compressible])
    if (!stored) throw new Error('one block in, one out')
    const broken: Block = { ...stored, headers: { ...stored.headers, ...headers }, payload: payload ?? stored.payload }
    const { headers: read, payload: kept } = decompressBlock(broken)
    expect(read).toEqual({ v: 0, rows: 1000, bytes: broken.payload.length, undated: true })
    expect(kept).toBe(broken.payload)
  },
)
