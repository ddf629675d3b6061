import { expect, test } from '@jest/globals'
import { readLines } from './read-lines.ts'

async function* inChunks(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield await Promise.resolve(bytes.subarray(at, at + size))
}

test.each([1, 3, 1_000])('lines are cut, decoded and checked, in chunks of %i bytes', async (size) => {
  const input = Buffer.concat([
    Buffer.from('\uFEFFfirst\r\n\nKäse \u2028\n'),
    Buffer.from('{"event_type":"K\xe4se"}\n', 'latin1'),
    Buffer.from(`${'x'.repeat(2_049)}\nlast`),
  ])
  const lines = []
  for await (const line of readLines(inChunks(input, size), 2_048)) lines.push(line)
  expect(lines).toEqual([
    { number: 1, text: 'first' },
    { number: 2, text: '' },
    { number: 3, text: 'Käse \u2028' },
    { number: 4, error: 'is not valid UTF-8' },
    { number: 5, error: 'is longer than 2 KiB' },
    { number: 6, text: 'last' },
  ])
})
