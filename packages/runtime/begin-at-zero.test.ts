import { expect, test } from '@jest/globals'
import { beginAtZero, Counter, createMetrics } from './metrics.ts'

test('the series of a counter begin at 0, one for each combination of the labels’ values', async () => {
  const metrics = createMetrics()
  const counter = new Counter({ name: 'rows', help: 'Rows.', labelNames: ['type', 'result'], registers: [metrics] })
  beginAtZero(counter, { type: ['events', 'users'], result: ['accepted', 'failed'] })
  expect((await counter.get()).values).toStrictEqual([
    { value: 0, labels: { type: 'events', result: 'accepted' } },
    { value: 0, labels: { type: 'events', result: 'failed' } },
    { value: 0, labels: { type: 'users', result: 'accepted' } },
    { value: 0, labels: { type: 'users', result: 'failed' } },
  ])
})
