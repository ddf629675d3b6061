import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { timestampErrors } from '@sluice/contracts/timestamp-errors'
import { eventRefusals, eventWithAnyField, refusalOfJson, siteRefusals } from '../../tests/support/event-refusals.ts'
import { type Answer, backoffMs, isClockError, limitPauseMs, readAnswer } from './read-answer.ts'

/** A response of Sluice; the header names are in lower case. */
function answer(status: number, body?: Answer['body'], headers: Record<string, string> = {}): Answer {
  return { status, headers: new Headers(headers), ...(body && { body: { timestamp: 1, ...body } }) }
}

const rejection = (index: number) => ({ index, error: `Invalid field: ${index}` })

describe('an SDK takes', () => {
  test('202 as stored, but for the events that the response names', () => {
    expect(readAnswer(answer(202, { timestamp: 1 }), 1)).toEqual({ next: 'done', refused: [], more: false })
    const data = { accepted: 3, rejected: 1, errors: [rejection(2)] }
    expect(readAnswer(answer(202, { data }), 4)).toEqual({
      next: 'done',
      refused: [[2, 'Invalid field: 2']],
      more: false,
    })
  })

  test('202 with more rejections than names as a reason to send the others again', () => {
    const data = { accepted: 300, rejected: 200, errors: Array.from({ length: 100 }, (_, index) => rejection(index)) }
    expect(readAnswer(answer(202, { data }), 500)).toMatchObject({ next: 'done', more: true })
  })

  test('202 without its body, which would name the refused events, as a reason to send all again', () => {
    expect(readAnswer(answer(202), 4)).toEqual({ next: 'repeat', afterMs: 0, error: 'HTTP 202' })
  })

  test('400 with names as these refusals, and the others to be sent again', () => {
    const data = { accepted: 0, rejected: 2, errors: [rejection(0), rejection(1)] }
    expect(readAnswer(answer(400, { data }), 2)).toMatchObject({ next: 'done', more: false })
    expect(readAnswer(answer(400, { data: { ...data, rejected: 3 } }), 3)).toMatchObject({ next: 'done', more: true })
  })

  test('400 and 413 without names as a request to split, down to the event that is refused', () => {
    for (const status of [400, 413]) {
      expect(readAnswer(answer(status, { error: 'why' }), 2)).toEqual({ next: 'split' })
      expect(readAnswer(answer(status, { error: 'why' }), 1)).toEqual({
        next: 'done',
        refused: [[0, 'why']],
        more: false,
      })
    }
  })

  test('401 and 403 as an end of sending', () => {
    for (const status of [401, 403])
      expect(readAnswer(answer(status, { error: 'key' }), 1)).toEqual({ next: 'stop', afterMs: 0, error: 'key' })
  })

  test.each([
    ['no body', undefined],
    ['the JSON of a proxy', { message: 'Forbidden', error: 'forbidden' }],
    ['a date in the JSON of a proxy', { timestamp: '2026-11-28T09:52:44Z' as never, error: 'Forbidden' }],
  ])('an error with %s, which says nothing about the events or the key, as a repetition', (_, body) => {
    for (const status of [202, 400, 401, 403]) {
      expect(readAnswer({ status, ...(body && { body }) }, 2)).toMatchObject({ next: 'repeat' })
    }
  })

  test('every error of a site as a repetition: it holds for all events of the site until somebody mends it', async () => {
    const refusals = await siteRefusals()
    expect(refusals).toEqual([
      'Key is not allowed for this site',
      'Site not found',
      'Rate limit exceeded. Retry after 60 seconds.',
    ])
    for (const error of refusals) {
      const data = { accepted: 0, rejected: 2, errors: [rejection(0), { index: 1, error: error ?? '' }] }
      expect(readAnswer(answer(400, { error: 'why', data }), 2)).toEqual({ next: 'repeat', afterMs: 0, error })
      expect(readAnswer(answer(400, { data }), 2, true)).toMatchObject({
        next: 'done',
        refused: [expect.anything(), [1, error]],
      })
    }
  })

  /** What an SDK does with the only event of a request that the gateway refused with `error`. */
  const readRefusal = (error: string) =>
    readAnswer(answer(400, { data: { accepted: 0, rejected: 1, errors: [{ index: 0, error }] } }), 1)

  test('every other error of an event as its refusal', () => {
    const refusals = eventRefusals()
    expect(refusals.length).toBeGreaterThan(50)
    for (const error of refusals) {
      const refused = [[0, error ?? 'a refusal']]
      expect(readRefusal(error ?? 'accepted')).toEqual({ next: 'done', refused, more: false })
    }
  })

  test('every error of the validation as a refusal, whatever the value of a field is', () => {
    let refused = 0
    fc.assert(
      fc.property(eventWithAnyField, (json) => {
        const error = refusalOfJson(json)
        if (error === undefined) return
        refused++
        expect(readRefusal(error)).toEqual({ next: 'done', refused: [[0, error]], more: false })
      }),
    )
    expect(refused).toBeGreaterThan(10)
  })

  test('the JSON of another service that has a timestamp like one without an error of an event', () => {
    for (const errors of [null, 'none', { length: 1 }, [{}]]) {
      const body = { timestamp: 1, data: { errors } } as unknown as NonNullable<Answer['body']>
      expect(readAnswer(answer(503, body), 2)).toMatchObject({ next: 'repeat' })
      expect(readAnswer(answer(400, body), 2)).toEqual({ next: 'split' })
    }
    const body = { error: {}, data: { errors: [null, 5, {}] } } as unknown as NonNullable<Answer['body']>
    for (const status of [202, 400, 403, 413, 503]) expect(() => readAnswer(answer(status, body), 3)).not.toThrow()
  })

  test('413 without a body, as proxies send it, as a request to split', () => {
    expect(readAnswer(answer(413), 2)).toEqual({ next: 'split' })
    expect(readAnswer(answer(413), 1)).toMatchObject({ next: 'done', refused: [[0, 'HTTP 413']] })
  })

  test('429 and 503 as a repetition after their Retry-After, and everything else as one after a backoff', () => {
    expect(readAnswer(answer(429, undefined, { 'retry-after': '7' }), 9)).toMatchObject({
      next: 'repeat',
      afterMs: 7000,
    })
    for (const status of [0, 200, 302, 404, 408, 500, 502, 503, 504]) {
      expect(readAnswer(answer(status, { data: { errors: [] } }), 3)).toMatchObject({ next: 'repeat', afterMs: 0 })
    }
    for (const invalid of ['-1', 'Wed, 21 Oct 2026 07:28:00 GMT'])
      expect(readAnswer(answer(503, undefined, { 'retry-after': invalid }), 1)).toMatchObject({ afterMs: 0 })
  })

  test('no response but 202 as stored, whatever it holds', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 599 }),
        fc.anything(),
        fc.integer({ min: 1, max: 9 }),
        (status, data, count) => {
          fc.pre(status !== 202 && status !== 400 && status !== 413)
          const body = { timestamp: 1, data } as NonNullable<Answer['body']>
          expect(readAnswer({ status, body }, count).next).not.toBe('done')
        },
      ),
    )
  })
})

test('the next request waits while the limit has fewer events left than it would send', () => {
  const at = { 'x-ratelimit-remaining': '19', 'x-ratelimit-reset': '100' }
  expect(limitPauseMs(answer(202, undefined, at), 20, 40_000)).toBe(60_000)
  expect(limitPauseMs(answer(202, undefined, at), 19, 40_000)).toBe(0)
  expect(limitPauseMs(answer(202, undefined, at), 20, 200_000)).toBe(0)
  expect(limitPauseMs(answer(202), 20, 0)).toBe(0)
})

test('a backoff lies between 0 and its bound, which doubles up to a minute', () => {
  fc.assert(
    fc.property(fc.nat(2000), (attempt) => {
      const ms = backoffMs(attempt)
      expect(ms).toBeGreaterThanOrEqual(0)
      expect(ms).toBeLessThanOrEqual(Math.min(60_000, 1000 * 2 ** attempt))
    }),
  )
})

test('only the two errors of a wrong clock allow another timestamp', () => {
  expect(isClockError(`Invalid field: timestamp ${timestampErrors.future}`)).toBe(true)
  expect(isClockError(`Invalid field: timestamp ${timestampErrors.past}`)).toBe(true)
  for (const days of [30, 1971])
    expect(
      isClockError(`Invalid field: timestamp must not be older than the retention_days of its site, ${days}`),
    ).toBe(false)
})
