import { expect, test } from '@jest/globals'
import { slowStops } from './rolling.ts'

test('a stop that takes longer than the service may is a problem, and the query service has more time', () => {
  const inTime = [
    { service: 'gateway', stopMs: 10_000 },
    { service: 'query', stopMs: 40_000 },
    { service: 'writer', stopMs: 9_000 },
    { service: 'worker', stopMs: 1 },
  ] as const
  expect(slowStops(inTime)).toEqual([])
  expect(slowStops([...inTime, { service: 'writer', stopMs: 10_001 }, { service: 'query', stopMs: 40_500 }])).toEqual([
    'a query ended after 40500 ms; the maximum is 40000',
    'a writer ended after 10001 ms; the maximum is 10000',
  ])
})
