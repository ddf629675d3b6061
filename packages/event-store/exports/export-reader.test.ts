import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { exportFormats } from '@sluice/contracts/exports'
import { type FullDiskClickHouse, fullDiskClickHouse } from '../../../tests/support/clickhouse-full-disk.ts'
import { openStatsDatabase, type StatsDatabase } from '../../../tests/support/stats-database.ts'
import { type ExportReader, openExportReaderAt } from './export-reader.ts'
import type { ExportRows } from './row-formats.ts'

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
  const { rows } = await reader.runnerFor(new AbortController().signal).query(statement)
  expect(rows).toEqual([{ seconds: 3_600 }])
})

describe.each(exportFormats)('a result as %s of a ClickHouse whose disk is full', (format) => {
  const columns = [{ name: 'n', kind: 'text' } as const]
  const stored = (count: number): ExportRows => ({
    columns,
    sql: 'SELECT toString(number) AS c0 FROM numbers({count:UInt32})',
    params: { count },
  })
  const posted: ExportRows = {
    columns,
    sql: 'SELECT * FROM b',
    params: {},
    posted: { structure: 'c0 String', lines: Buffer.from('{"c0":"a"}\n{"c0":"b"}'), count: 2 },
  }
  let disk: FullDiskClickHouse
  let fullReader: ExportReader

  beforeAll(async () => {
    disk = await fullDiskClickHouse(database.reader.address.origin)
    fullReader = openExportReaderAt({ ...database.reader.address, origin: disk.origin })
  })

  afterAll(async () => {
    await fullReader.close()
    await disk.close()
  })

  const read = async (rows: ExportRows, bytesMax: number) => {
    disk.bytesMax = bytesMax
    const { signal } = new AbortController()
    const { rows: count, bytes } = await fullReader.read(rows, { format, isCsvSafe: true }, signal)
    return { count, content: await buffer(bytes) }
  }

  test.each([
    ['stored', stored(20)],
    ['posted', posted],
  ])('without bytes, or cut within a row, is an error that passes, for %s rows', async (_, rows) => {
    const { content } = await read(rows, Infinity)
    expect(content.length).toBeGreaterThan(3)
    for (const bytesMax of [0, 1, content.length - 2, content.length - 1]) {
      await expect(read(rows, bytesMax)).rejects.toMatchObject({ code: 'unavailable', retryable: true })
    }
  })

  test('may have no rows, and only a file of Parquet has bytes then', async () => {
    const { count, content } = await read(stored(0), Infinity)
    expect([count, content.length > 0]).toStrictEqual([0, format === 'parquet'])
    const withoutBytes = read(stored(0), 0)
    await (format === 'parquet'
      ? expect(withoutBytes).rejects.toMatchObject({ code: 'unavailable', retryable: true })
      : withoutBytes)
  })
})
