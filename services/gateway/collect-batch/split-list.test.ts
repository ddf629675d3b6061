import { execFileSync } from 'node:child_process'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { statusOf } from '@sluice/api/error-status'
import { AppError } from '@sluice/runtime/errors'
import { type BatchItem, readEvents } from './read-events.ts'
import { splitList } from './split-list.ts'

const mebibyte = 1024 * 1024
const type = 'application/json'

/** White space that makes a body large enough to be split. */
const padding = ' '.repeat(mebibyte)

/** The items of a body, or the message of its error. */
function read(body: string): unknown[] | string {
  try {
    return [...readEvents({ bytes: Buffer.from(body), type }).items].map(({ value, error }: BatchItem) =>
      error === undefined ? value : error.message,
    )
  } catch (error) {
    if (error instanceof AppError && statusOf[error.code] === 400) return error.message
    throw error
  }
}

const texts = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('"', '\\', '\\"', '{', '}]', '[', ',', '":[{', '__proto__', ''),
)
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    texts,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(texts, tie('json'), { maxKeys: 4 }),
  ),
}))

describe('a body that is split has the same result as one that is parsed as a whole', () => {
  test('with any events', () => {
    fc.assert(
      fc.property(fc.array(json, { minLength: 1, maxLength: 6 }), fc.constantFrom(0, 1, '\t'), (events, indent) => {
        const body = JSON.stringify({ events }, null, indent)
        expect(read(body + padding)).toStrictEqual(read(body))
      }),
      { numRuns: 100 },
    )
  })

  test('with a broken character at any place', () => {
    const broken = fc
      .tuple(
        fc.array(json, { minLength: 1, maxLength: 3 }),
        fc.nat(),
        fc.constantFrom('{', '}', '[', ']', ',', ':', '"', '\\', ' ', '1', 'x', '\0', ''),
      )
      .map(([events, at, put]) => {
        const body = JSON.stringify({ events })
        const place = at % body.length
        return body.slice(0, place) + put + body.slice(place + 1)
      })
    fc.assert(
      fc.property(broken, (body) => {
        const whole = read(body)
        const split = read(body + padding)
        // Either one of two errors in a body may be reported.
        if (typeof whole === 'string') expect(typeof split).toBe('string')
        else expect(split).toStrictEqual(whole)
      }),
      { numRuns: 300 },
    )
  })

  test.each([
    '',
    '[]',
    '5',
    '{}',
    '[{"site_id": "s"}]',
    '{"events": null}',
    '{"events": {}}',
    '{"events": {"a": [{}]}}',
    '{"events": []}',
    '{"events": [1], "batch": 5}',
    '{"events": [{}], "batch": [{}]}',
    '{"events": [{}]} {}',
    '{"\\u0065vents": [{"a": 1}, [], [0], [[1]], "x", 5]}',
    `{"events": [${'1,'.repeat(1_999)}1]}`,
    `{"events": [${'1,'.repeat(2_000)}1]}`,
    `{"events": [${'{},'.repeat(1_999)}{}]}`,
    `{"events": [${'{},'.repeat(2_000)}{}]}`,
  ])('when it is %.60s', (body) => expect(read(body + padding)).toStrictEqual(read(body)))
})

test('an event with more brackets and commas than allowed bytes is too large, and the others are read', () => {
  const large = (marks: number) => `{"l":[${'1,'.repeat(marks - 2)}1]}`
  const [good, tooLarge, last] = read(
    `{"events": [${large(32_768)}, ${large(32_769)}, {"a": "${','.repeat(40_000)}"}]}${padding}`,
  )
  expect(good).toMatchObject({ l: { length: 32_767 } })
  expect(tooLarge).toBe('Event is larger than 32768 bytes')
  expect(last).toStrictEqual({ a: ','.repeat(40_000) })
})

test.each([
  ['small', ''],
  ['large', padding],
])('a %s body with "events" twice is rejected, because the first list would not be read', (_, end) => {
  for (const body of [
    '{"events": [{"a": 1}], "events": [{"b": 1}]}',
    '{"events": [{"a": 1}], "events": [{"b": 1}, {"c": "\\"events\\""}]}',
  ]) {
    expect(read(`${body}${end}`)).toBe('Invalid format: body names "events" twice')
  }
})

test('an event may have a member, or a text, that is named as the list is', () => {
  const events = [{ events: [{ a: 1 }, 'events'] }, { events: 'events' }, 5]
  expect(read(JSON.stringify({ events }))).toStrictEqual(events)
})

test('splitting removes exactly the bytes of the items from the skeleton', () => {
  expect(splitList(Buffer.from('{"a": [], "events": [ {"x": "}"} , 5, [1]]}'))).toStrictEqual({
    skeleton: '{"a": [], "events": [ [0] , 5, [1]]}',
    items: [Buffer.from('{"x": "}"}'), Buffer.from('[1]')],
  })
})

describe('reading or rejecting 10 MiB takes little more memory than the body', () => {
  const folder = new URL('./', import.meta.url).href
  /** Reads a body in a separate process and returns the growth of its peak memory in MiB. */
  function peakMemory(contentType: string, body: string): { mebibytes: number; outcome: string } {
    const script = `
      import { encodeBatch } from '${folder}encode-batch.ts'
      import { readEvents } from '${folder}read-events.ts'
      const limit = 10 * 1024 * 1024
      const fill = (part) => part.repeat(Math.floor((limit - 100) / part.length))
      const bytes = Buffer.from(${body})
      if (bytes.length > limit || bytes.length < limit / 2) throw new Error('not the size that is meant')
      const credential = { keyId: 'k', environment: 'prod', scopes: [] }
      const request = (bytes) => ({ body: { bytes, type: '${contentType}' }, receivedAt: Date.now(), credential })
      gc()
      const before = process.resourceUsage().maxRSS
      let outcome
      try {
        const { accepted, rejected } = encodeBatch(readEvents({ bytes, type: '${contentType}' }).items, request(bytes), undefined, () => undefined)
        outcome = accepted.length + ' accepted, ' + rejected + ' rejected'
      } catch (error) {
        outcome = error.message
      }
      console.log(JSON.stringify({ mebibytes: (process.resourceUsage().maxRSS - before) / 1024, outcome }))`
    const answer = execFileSync(
      process.execPath,
      ['--expose-gc', '--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', script],
      { encoding: 'utf8' },
    )
    return JSON.parse(answer) as { mebibytes: number; outcome: string }
  }

  const tooMany = 'Invalid field: events must contain at most 2000 events'
  const notJson = 'Invalid format: body is not valid JSON'
  const noList = 'Invalid format: body must be a JSON object with a list "events"'
  const full = `\`{"site_id":"s","event_type":"x","a":[\${'{},'.repeat(10_900)}{}]}\``

  test.each([
    [type, '`{"events":[${fill("{},")}{}]}`', tooMany],
    [type, '`{"events":[${fill("1,")}1]}`', tooMany],
    [type, '`{"events":[{"a":[${fill("{},")}{}]}]}`', '0 accepted, 1 rejected'],
    [type, 'fill("[")', notJson],
    [type, '`{"events":[${fill("[")}`', notJson],
    [type, '`{"events":[${"[".repeat(5e6)}${"]".repeat(5e6)}]}`', '0 accepted, 1 rejected'],
    [type, '`{${Array.from({ length: 900_000 }, (_, n) => `"${n}":1`)}}`', noList],
    [type, `\`{"events":[\${Array.from({ length: 310 }, () => ${full})}]}\``, '310 accepted, 0 rejected'],
    ['application/x-ndjson', `Array.from({ length: 310 }, () => ${full}).join('\\n')`, '310 accepted, 0 rejected'],
  ])('when its type is %s and its text is %s', (contentType, body, expected) => {
    const { mebibytes, outcome } = peakMemory(contentType, body)
    expect(outcome).toBe(expected)
    // Parsed as a whole, these bodies take 200 to 600 MiB.
    expect(mebibytes).toBeLessThan(160)
  })
})
