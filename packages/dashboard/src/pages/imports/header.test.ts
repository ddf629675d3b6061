import { describe, expect, it } from '@jest/globals'
import { checkHeader, headerOf, startOf } from './header.ts'

describe('the header of a CSV file', () => {
  it.each([
    ['event_type,timestamp_ms\nview,1', ['event_type', 'timestamp_ms']],
    ['event_type;"timestamp_ms"\r\nview;1', ['event_type', 'timestamp_ms']],
    ['"a ""b"", c"\td', ['a "b", c', 'd']],
    ['"two\nlines",b\nx', ['two\nlines', 'b']],
  ])('of %j is %j', (text, cells) => expect(headerOf(text)).toStrictEqual(cells))

  it.each([
    ['event_type,timestamp_ms,properties.plan,url', 'events', undefined],
    ['\uFEFFevent_type,timestamp', 'events', undefined],
    ['user_id,email,first_seen', 'users', undefined],
    ['\n \t\r\n\nevent_type,timestamp', 'events', undefined],
    ['\n\tevent_type\ttimestamp', 'events', /“” is not known/],
    [
      'event_type,timestamp_ms,plan',
      'events',
      /^The column “plan” is not known\. Rename it properties\.<name> to keep it\. Known columns: site_id, event_type/,
    ],
    ['event_type,plan,url,a,b', 'events', /^The columns “plan”, “a” and “b” are not known\. Rename them properties\./],
    ['user_id,plan,colour', 'users', /^The column “colour” is not known\. Known columns: user_id/],
    ['event_type,url', 'events', /“timestamp_ms” is missing/],
    ['event_type,timestamp,timestamp_ms', 'events', /Two columns hold “timestamp_ms”/],
    ['event_type,timestamp_ms', 'users', /header of a file of events\. Choose “Events”/],
    ['user_id,email', 'events', /header of a file of users\. Choose “Users”/],
    [' \n', 'events', /empty/],
    ['PK\u0003\u0004\0\0', 'events', /UTF-8/],
  ] as const)('%j of %s: %s', (text, type, problem) => {
    const checked = checkHeader(text, type, true)
    if (problem === undefined) expect(checked.problem).toBeUndefined()
    else expect(checked.problem).toMatch(problem)
  })

  it('of users can only be imported by admin keys', () => {
    expect(checkHeader('user_id,email', 'events', false).problem).toMatch(
      /^This .* file of users\. .* the scope admin\.$/,
    )
  })

  it('is not asked of JSON', () => {
    expect(checkHeader(' [{"event_type":"a"}]', 'events', true)).toStrictEqual({ columns: [], isJson: true })
  })
})

it('the beginning of a file is read, also of a compressed one, and cut within a character', async () => {
  const text = `event_type,timestamp_ms\n${'ä'.repeat(100_000)}`
  const plain = await startOf(new Blob([text]))
  expect(plain.startsWith('event_type,timestamp_ms\nä')).toBe(true)
  expect(checkHeader(plain, 'events', true).problem).toBeUndefined()
  const replaced = await startOf(new Blob(['event_type,timestamp_ms,url\nview,1,/\uFFFD']))
  expect(checkHeader(replaced, 'events', true).problem).toBeUndefined()
  await expect(startOf(new Blob([Uint8Array.of(0x65, 0xe9, 0x2c)]))).rejects.toThrow('utf-8')
  const compressed = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))
  const packed = await startOf(await new Response(compressed).blob())
  expect(checkHeader(packed, 'events', true).problem).toBeUndefined()
})

it('the beginning of a compressed file is read where the browser refuses what follows its first member', async () => {
  const { DecompressionStream } = globalThis
  let taken = 0
  // As Safari does: the output of the chunk in which the member ends is lost.
  class Refusing extends TransformStream<Uint8Array, Uint8Array> {
    constructor() {
      super({
        transform: (chunk, controller) => {
          taken += chunk.length
          if (taken > 300) throw new TypeError('Extra bytes past the end.')
          controller.enqueue(new TextEncoder().encode('x'.repeat(chunk.length)))
        },
      })
    }
  }
  globalThis.DecompressionStream = Refusing as unknown as typeof DecompressionStream
  try {
    const file = new Blob([Uint8Array.of(0x1f, 0x8b), new Uint8Array(10_000)])
    expect((await startOf(file)).length).toBeGreaterThan(280)
  } finally {
    globalThis.DecompressionStream = DecompressionStream
  }
})
