import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Criteria } from '@sluice/contracts/conditions'
import { noon, openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { type ExportReader, openExportReaderAt } from './export-reader.ts'
import type { ExportScope } from './scope.ts'
import { eventSource } from './source.ts'

let database: StatsDatabase
let reader: ExportReader

beforeAll(async () => {
  database = await openStatsDatabase()
  reader = openExportReaderAt(database.reader.address)
})

afterAll(async () => {
  await reader.close()
  await database.drop()
})

test.each([
  { membersMax: 2, allowsReadAhead: true },
  // If a cohort has too many members to be sent, its slices are larger.
  { membersMax: 1, allowsReadAhead: false },
])('slices may be read ahead unless they evaluate the cohort (%j)', async ({ membersMax, allowsReadAhead }) => {
  const siteId = await database.siteWith([
    { at: 0, user_id: 'anna' },
    { at: 1, user_id: 'ben' },
    { at: 2, user_id: 'anna' },
  ])
  const criteria: Criteria = {
    type: 'and',
    conditions: [{ property: 'event_type', operator: 'not_equals', value: 'refund' }],
  }
  const day = 86_400_000
  const scope: ExportScope = {
    siteId,
    environment: 'all',
    start: undefined,
    end: undefined,
    receivedFrom: undefined,
    receivedUntil: noon + day,
    filter: [],
    cohort: { criteria, now: noon + day },
  }
  const runner = reader.runnerFor(new AbortController().signal)
  const found: boolean[] = []
  for await (const slice of eventSource(scope, runner, { eventsMax: 2, membersMax }).slices(undefined)) {
    found.push(slice.allowsReadAhead)
  }
  expect(found).toStrictEqual([allowsReadAhead, allowsReadAhead])
})
