import { beforeAll, expect, test } from '@jest/globals'
import { loadTemporal } from '../state/temporal.ts'
import { listSource } from './list-source.ts'

beforeAll(loadTemporal)

test('the rows of a list have its moments in ISO 8601 with the offset, and its other numbers as they are', () => {
  const ms = Date.UTC(2026, 10, 22, 13, 5, 9)
  const record = {
    created_at: ms,
    expires_at: null,
    failing_since: ms,
    at: ms,
    start_date: ms,
    complete_until: ms + 120,
    timestamp: ms,
    rows: 12,
    format: 'csv',
    latency_ms: 1_500,
    last_status: 500,
    scheduled: { frequency: 'daily', next_run: ms },
    attempts: [{ at: ms, status: 200 }],
  }
  const iso = '2026-11-22T18:35:09+05:30'
  expect(
    listSource('Runs', ['listKeys', { query: {} }], [record], { fileParts: ['runs'], zone: 'Asia/Kolkata' }).rows(),
  ).toStrictEqual([
    {
      created_at: iso,
      expires_at: null,
      failing_since: iso,
      at: iso,
      start_date: iso,
      complete_until: '2026-11-22T18:35:09.120+05:30',
      timestamp: iso,
      rows: 12,
      format: 'csv',
      latency_ms: 1_500,
      last_status: 500,
      scheduled: `{"frequency":"daily","next_run":"${iso}"}`,
      attempts: `[{"at":"${iso}","status":200}]`,
    },
  ])
})
