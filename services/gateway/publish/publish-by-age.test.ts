import { expect, test } from '@jest/globals'
import { backfillAgeMs } from '@sluice/contracts/lanes'
import type { EncodedEvent } from '@sluice/events/encode-event'
import { publishByAge } from './publish-by-age.ts'

const noon = Date.UTC(2026, 0, 15, 12)

function event(line: string, ageMs: number): EncodedEvent {
  return { line, timestamp: noon - ageMs, keyHash: undefined, undated: false, siteId: 'shop' }
}

const recent = event('recent', backfillAgeMs)
const old = event('old', backfillAgeMs + 1)

/** Publishers that record what they publish, and settle when the test says so. */
function start({ isBackfillRead = true } = {}) {
  const lane = () => {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const lines: string[] = []
    const publish = (events: readonly EncodedEvent[]): Promise<void> => {
      lines.push(...events.map(({ line }) => line))
      return promise
    }
    return { lines, publish, resolve, reject }
  }
  const [live, backfill] = [lane(), lane()]
  return { live, backfill, publisher: publishByAge({ live, backfill, isBackfillRead: () => isBackfillRead }) }
}

test('events older than 62 days at their receipt are published to their own log, and a request waits for both', async () => {
  const { live, backfill, publisher } = start()
  let settled = false
  const published = publisher.publish([recent, old, recent], noon).then(() => {
    settled = true
  })
  expect([live.lines, backfill.lines]).toStrictEqual([['recent', 'recent'], ['old']])
  live.resolve(undefined)
  await new Promise(setImmediate)
  expect(settled).toBe(false)
  backfill.resolve(undefined)
  await published
})

test('a request of old events alone, or of others alone, waits for one log', async () => {
  const { live, backfill, publisher } = start()
  backfill.resolve(undefined)
  await publisher.publish([old, old], noon)
  expect(live.lines).toStrictEqual([])
  live.resolve(undefined)
  await publisher.publish([recent], noon)
  expect([live.lines, backfill.lines]).toStrictEqual([['recent'], ['old', 'old']])
})

test('a request fails when one of the logs does not take its events', async () => {
  const { live, backfill, publisher } = start()
  const failure = new Error('the log is unavailable')
  backfill.reject(failure)
  live.resolve(undefined)
  await expect(publisher.publish([recent, old], noon)).rejects.toBe(failure)
})

test('all events are published to the live log until the backfill log is read', async () => {
  const { live, backfill, publisher } = start({ isBackfillRead: false })
  live.resolve(undefined)
  await publisher.publish([recent, old], noon)
  expect([live.lines, backfill.lines]).toStrictEqual([['recent', 'old'], []])
})
