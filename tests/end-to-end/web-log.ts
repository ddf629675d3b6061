import { readFile } from 'node:fs/promises'
import { gunzipSync } from 'node:zlib'
import { expect } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Client, waitForCount } from '../support/client.ts'

const folder = new URL('../../docs/example/', import.meta.url)

interface Expected {
  site_id: string
  start_date: number
  end_date: number
  whole_range: Record<string, number>
  event_count_by_day: { timestamp: number; value: number }[]
  event_count_by_device_type: Record<string, number>
  event_count_by_type: Record<string, number>
  sessions_by_day_of_first_event: { timestamp: number; value: number }[]
  conversion_rate_target_error: number
}

/** Sends the real web log in batches of 500. */
export async function sendWebLog(sluice: Client): Promise<void> {
  const text = gunzipSync(await readFile(new URL('web-log.ndjson.gz', folder))).toString('utf8')
  const events = text
    .trimEnd()
    .split('\n')
    .map((line): object => JSON.parse(line) as object)
  for (let from = 0; from < events.length; from += 500) {
    const send = () => sluice.collectBatch(events.slice(from, from + 500))
    // On a busy machine a gateway may ask for another attempt.
    await waitUntil(async () => {
      const { status } = await send()
      expect([202, 503]).toContain(status)
      return status === 202
    }, 'a batch is accepted')
  }
  await waitForCount(sluice, 'web-log', events.length)
}

/** Compares every response in web-log.expected.json with the response of the service. */
export async function expectWebLogAnswers(sluice: Client): Promise<void> {
  const expected = JSON.parse(await readFile(new URL('web-log.expected.json', folder), 'utf8')) as Expected
  const range = { site_id: expected.site_id, start_date: expected.start_date, end_date: expected.end_date }
  const ask = async (parameters: Record<string, string>) => {
    let answer = await sluice.stats({ ...range, ...parameters })
    // On a busy machine a query service may ask for another attempt.
    await waitUntil(async () => {
      if (answer.status === 503) answer = await sluice.stats({ ...range, ...parameters })
      return answer.status !== 503
    }, 'the question is answered')
    expect(answer.status).toBe(200)
    return answer.data
  }
  const byKey = async (parameters: Record<string, string>): Promise<Record<string, number>> =>
    Object.fromEntries((await ask(parameters)).breakdown.map(({ key, value }): [string, number] => [key ?? '', value]))

  for (const [metric, value] of Object.entries(expected.whole_range)) {
    expect({ metric, value: (await ask({ metric })).value }).toEqual({ metric, value })
  }
  expect((await ask({ metric: 'event_count', group_by: 'day' })).breakdown).toEqual(expected.event_count_by_day)
  expect(await byKey({ metric: 'event_count', group_by: 'device_type' })).toEqual(expected.event_count_by_device_type)
  expect(await byKey({ metric: 'event_count_by_type' })).toEqual(expected.event_count_by_type)
  expect((await ask({ metric: 'unique_sessions', group_by: 'day' })).breakdown).toEqual(
    expected.sessions_by_day_of_first_event,
  )
  expect((await ask({ metric: 'conversion_rate', target_event: 'error' })).value).toBe(
    expected.conversion_rate_target_error,
  )
}
