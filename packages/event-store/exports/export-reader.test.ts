import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { type ExportReader, openExportReaderAt } from './export-reader.ts'

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

test('statements of exports and summaries may take ClickHouse an hour, as nobody waits for the response', async () => {
  const statement = { sql: "SELECT toUInt32(getSetting('max_execution_time')) AS seconds", params: {} }
  const { rows } = await reader.runner(new AbortController().signal).query(statement)
  expect(rows).toEqual([{ seconds: 3_600 }])
})
