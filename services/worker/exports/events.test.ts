import { randomUUID } from 'node:crypto'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { guardCell, unguardCell } from '@sluice/contracts/csv-cells'
import { dayMs } from '@sluice/contracts/time-units'
import { ClickHouseError } from '@sluice/event-store/clickhouse/errors'
import { sliceEndStatement } from '@sluice/event-store/exports/events'
import { type ExportReader, openExportReaderAt } from '@sluice/event-store/exports/export-reader'
import { splitFields } from '@sluice/imports/csv-fields'
import { waitUntil } from '@sluice/runtime/wait-until'
import { fullDiskClickHouse } from '../../../tests/support/clickhouse-full-disk.ts'
import { addExport } from '../../../tests/support/export-jobs.ts'
import { createExportRig, exportedAt, type ExportRig } from '../../../tests/support/export-rig.ts'
import { hour, noon, type StoredEvent } from '../../../tests/support/stats-database.ts'

let rig: ExportRig

beforeAll(async () => {
  rig = await createExportRig()
})

afterAll(async () => {
  await rig.drop()
})

const columns =
  'event_id,site_id,event_type,timestamp_ms,session_id,user_id,url,country,referrer,device_type,anonymous_id,environment,received_at,properties'

/** Texts that a writer of files may get wrong. */
const texts = [
  '',
  'a',
  '=1+1',
  '-2',
  "'=x",
  '"',
  ',',
  'a\nb',
  '\r',
  '\t',
  '\\',
  'é𝄞',
  '{}',
  '\u2028',
  'NULL',
  '\\N',
  "'",
]

/** Events of three days, several at one time, in both environments. */
function someEvents(count: number): StoredEvent[] {
  return Array.from({ length: count }, (_, n) => ({
    at: Math.floor(n / 3) / 10,
    event_id: `e${(n * 7919) % count}`,
    environment: n % 10 === 9 ? 'dev' : 'prod',
    event_type: `type ${n % 5}`,
    user_id: texts[n % texts.length] ?? '',
    session_id: texts[(n * 3) % texts.length] ?? '',
    url: `https://example.com/${texts[(n * 5) % texts.length]}`,
    country: n % 2 === 0 ? 'DE' : '',
    properties: {
      [`k${texts[n % texts.length]}`]: texts[(n * 11) % texts.length] ?? '',
      n: String(n),
      list: '[1,"a"]',
    },
    property_types: { n: 'number', list: 'array' },
  }))
}

/** An event as a file has it. */
function expectedRow(siteId: string, { at, properties = {}, property_types: types = {}, ...event }: StoredEvent) {
  const received = noon + at * hour
  const typed = Object.entries(properties).map(([name, value]): [string, unknown] => [
    name,
    name in types ? JSON.parse(value) : value,
  ])
  return {
    event_id: event.event_id,
    site_id: siteId,
    event_type: event.event_type,
    timestamp_ms: received,
    session_id: event.session_id,
    user_id: event.user_id,
    url: event.url,
    country: event.country,
    referrer: '',
    device_type: '',
    anonymous_id: '',
    environment: event.environment,
    received_at: received,
    properties: Object.fromEntries(typed),
  }
}

type Row = Record<string, unknown>

const byId = (rows: Row[]): Row[] => rows.sort((a, b) => (String(a.event_id) < String(b.event_id) ? -1 : 1))

/** The rows of a file of CSV without guards, by the splitter of imports. */
function readCsv(text: string): Row[] {
  const records = splitRecords(text)
  const header = records.shift() ?? ''
  expect(header).toBe(columns)
  return records.map((record) => {
    const cells = splitFields(record, ',')
    const row: Row = Object.fromEntries(header.split(',').map((name, at) => [name, cells[at]]))
    return {
      ...row,
      timestamp_ms: Number(row.timestamp_ms),
      received_at: Number(row.received_at),
      properties: JSON.parse(String(row.properties)) as unknown,
    }
  })
}

/** Line breaks within quotes separate no records. */
function splitRecords(text: string): string[] {
  const records: string[] = []
  let from = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') isQuoted = !isQuoted
    else if (text[at] === '\n' && !isQuoted) {
      records.push(text.slice(from, at))
      from = at + 1
    }
  }
  expect(from).toBe(text.length)
  return records
}

const readers = {
  csv: readCsv,
  json: (text: string) => JSON.parse(text) as Row[],
  ndjson: (text: string) => {
    const lines = text.split('\n')
    expect(lines.pop()).toBe('')
    return lines.map((line) => JSON.parse(line) as Row)
  },
}

describe.each(['csv', 'json', 'ndjson'] as const)('a file of %s', (format) => {
  test('has the events of the environment, each once, whatever their slices', async () => {
    const events = someEvents(1_000)
    const siteId = await rig.database.siteWith(events)
    const expected = events
      .filter(({ environment }) => environment === 'prod')
      .map((event) => expectedRow(siteId, event))
    const record = await rig.exportAll(siteId, { format, csv_safe: false }, { sliceEventsMax: 77 })
    expect(record).toMatchObject({ status: 'completed', rows: expected.length, progress: 100, error: null })
    const file = await rig.file(record.exportId)
    expect(record.bytes).toBe(file.length)
    expect(byId(readers[format](file.toString()))).toStrictEqual(byId(expected))
  })

  test('may have no event', async () => {
    const record = await rig.exportAll('nothing', { format })
    expect(record).toMatchObject({ status: 'completed', rows: 0 })
    expect(record.expiresAt).toBe((record.finishedAt ?? 0) + 7 * dayMs)
    expect(readers[format]((await rig.file(record.exportId)).toString())).toStrictEqual([])
  })

  test.each([
    ['gzip', gunzipSync],
    ['zstd', zstdDecompressSync],
  ] as const)('may be compressed with %s', async (compression, unpack) => {
    const events = someEvents(300)
    const siteId = await rig.database.siteWith(events)
    const options = { sliceEventsMax: 100 }
    const record = await rig.exportAll(siteId, { format, csv_safe: false, compression, environment: 'all' }, options)
    const expected = events.map((event) => expectedRow(siteId, event))
    const rows = readers[format](unpack(await rig.file(record.exportId)).toString())
    expect(byId(rows)).toStrictEqual(byId(expected))
  })
})

test('cells of CSV are guarded as guardCell does, which imports take back', async () => {
  const starts = ['=', '+', '-', '@', '\t', '\r', "'", "''", 'a', '1', '-1', '+1', ' =']
  const ends = ['', '1', '.5', 'e5', 'e', 'E5', '1.', '\n', '=', "'", ' ', '\u0660']
  const cells = starts.flatMap((start) => ends.flatMap((end) => ends.map((last) => start + end + last)))
  const siteId = await rig.database.siteWith(cells.map((url, at) => ({ at: at / 60, event_id: `e${at}`, url })))
  const { exportId } = await rig.exportAll(siteId, { format: 'csv' })
  const rows = readCsv((await rig.file(exportId)).toString())
  expect(rows.map(({ url }) => url)).toStrictEqual(cells.map(guardCell))
  expect(rows.map(({ url }) => unguardCell(String(url)))).toStrictEqual(cells)
})

test('a slice is read while the one before is written, as long as the unit goes on', async () => {
  const siteId = await rig.database.siteWith(someEvents(300))
  let begun = 0
  const reader: ExportReader = {
    ...rig.reader,
    read: async (...args) => {
      const n = ++begun
      const { rows, bytes } = await rig.reader.read(...args)
      async function* whenNextIsRead(): AsyncGenerator<Uint8Array> {
        if (n < 3) await waitUntil(() => begun > n, `slice ${n + 1} is read while slice ${n} is written`, 10_000)
        yield* bytes
      }
      return { rows, bytes: whenNextIsRead() }
    },
  }
  const spec = { format: 'ndjson', environment: 'all' } as const
  const record = await rig.exportAll(siteId, spec, { reader, sliceEventsMax: 100, unitMs: 60_000 })
  expect(record).toMatchObject({ status: 'completed', rows: 300 })
})

test('while a slice of a file that can’t be resumed is written, no statement runs whose result would wait', async () => {
  const siteId = await rig.database.siteWith(someEvents(300))
  let statements = 0
  const ahead: number[] = []
  const reader: ExportReader = {
    ...rig.reader,
    runnerFor: (signal) => {
      const runner = rig.reader.runnerFor(signal)
      return {
        ...runner,
        query: (...args) => {
          statements++
          return runner.query(...args)
        },
      }
    },
    read: async (...args) => {
      const { rows, bytes } = await rig.reader.read(...args)
      const before = ++statements
      async function* noted(): AsyncGenerator<Uint8Array> {
        yield* bytes
        ahead.push(statements - before)
      }
      return { rows, bytes: noted() }
    },
  }
  const spec = { format: 'ndjson', environment: 'all', compression: 'zstd' } as const
  const record = await rig.exportAll(siteId, spec, { reader, sliceEventsMax: 100, unitMs: 60_000 })
  expect(record).toMatchObject({ status: 'completed', rows: 300 })
  expect(ahead).toStrictEqual([0, 0, 0])
})

test('events that were accepted before the export and are stored while it waits are in the file', async () => {
  const siteId = await rig.database.siteWith([{ at: 0, event_id: 'early' }])
  const { exportId } = await addExport(rig.exports, { site: siteId }, exportedAt)
  const storedBlocks = {
    wait: async () => {
      await rig.database.owner.command(
        `INSERT INTO events SELECT * REPLACE ('late' AS event_id) FROM events WHERE site_id = {site_id:String}`,
        { params: { site_id: siteId } },
      )
      return true
    },
  }
  await rig.work({ storedBlocks, clock: { now: () => exportedAt } })
  expect(readCsv((await rig.file(exportId)).toString()).map(({ event_id: id }) => id)).toStrictEqual(['early', 'late'])
})

test('no file is begun while the writers have not stored what was accepted before the export, however long', async () => {
  const siteId = await rig.database.siteWith([{ at: 0, event_id: 'early' }])
  const { exportId } = await addExport(rig.exports, { site: siteId }, exportedAt)
  const { job, lease } = await rig.take()
  const now = exportedAt + 3_600_000
  const unit = (all: number) =>
    rig.unit({
      storedBlocks: { wait: () => Promise.resolve(false) },
      watermarks: { readCompleteTimes: () => Promise.resolve({ live: all, all }) },
      clock: { now: () => now },
    })(job, lease)
  expect(await unit(exportedAt)).toStrictEqual({ next: now + 1_000, log: { waits: 'for the writers' } })
  expect(await rig.exports.find(exportId, null)).toMatchObject({ uploadId: null, rows: 0 })
  // At that time, events that came after the export are not stored yet.
  while ((await unit(exportedAt + 1)).next !== 'done');
  await rig.exports.leases.release(lease, null, { isProgress: true })
  expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'completed', rows: 1 })
})

describe('an export that is too large for ClickHouse', () => {
  const unitWith = async (serverCode: number, internal = 'too large') => {
    const siteId = await rig.database.siteWith([{ at: 0 }])
    const { exportId } = await addExport(rig.exports, { site: siteId, spec: { type: 'users' } }, exportedAt)
    const { job, lease } = await rig.take()
    const read = () => Promise.reject(new ClickHouseError(serverCode, internal))
    const done = rig.unit({ reader: { ...rig.reader, read } })(job, lease)
    return { exportId, done, lease }
  }
  const text =
    'The export asks for more than ClickHouse can read in its memory or within an hour: choose a shorter range or a filter.'

  test('fails after an hour', async () => {
    const { exportId, done } = await unitWith(159)
    expect(await done).toMatchObject({ next: 'done' })
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'failed', error: text })
  })

  test('counts an attempt that took too much memory itself, so that the tenth is the last', async () => {
    for (const [limit, outcome] of [
      ['(query memory limit)', { message: text, retryable: false }],
      ['(total) memory limit', { retryable: true }],
    ] as const) {
      const { done, lease, exportId } = await unitWith(241, `${limit} exceeded`)
      await expect(done).rejects.toMatchObject(outcome)
      await rig.exports.leases.release(lease, null, { isProgress: false })
      await rig.exports.delete(exportId, null)
    }
  })
})

test('an export never completes with a file that lacks rows while the disk of ClickHouse is full', async () => {
  const siteId = await rig.database.siteWith([{ at: 0, user_id: 'anna' }])
  const { address } = rig.database.owner
  const disk = await fullDiskClickHouse(address.origin)
  const reader = openExportReaderAt({ ...address, origin: disk.origin })
  for (const spec of [{ type: 'users' }, { type: 'stats', metric: 'event_count' }, {}] as const) {
    disk.bytesMax = 0
    const { exportId } = await addExport(rig.exports, { site: siteId, spec }, exportedAt)
    const { job, lease } = await rig.take()
    await expect(rig.unit({ reader })(job, lease)).rejects.toMatchObject({ code: 'unavailable', retryable: true })
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'processing', rows: 0 })
    // There is room again.
    disk.bytesMax = Infinity
    await rig.exports.leases.release(lease, exportedAt, { isProgress: false })
    await rig.work({ reader })
    expect(await rig.exports.find(exportId, null)).toMatchObject({ status: 'completed', rows: 1 })
    expect((await rig.file(exportId)).toString().split('\n')).toHaveLength(3)
  }
  await reader.close()
  await disk.close()
})

test('a range of times of receipt is read alone, and not all of the site', async () => {
  const { owner } = rig.database
  const siteId = randomUUID()
  const [day, count] = [86_400_000, 200_000]
  // Events of 20 days in one month, each received a second after it happened.
  const begin = Date.UTC(2026, 3, 2)
  await owner.command(
    `INSERT INTO events (site_id, environment, event_type, timestamp, event_id, received_at)
     SELECT {site_id:String}, 'prod', 'view', fromUnixTimestamp64Milli({begin:Int64} + number * ${(20 * day) / count}) AS at,
       toString(number), at + INTERVAL 1 SECOND
     FROM numbers(${count})`,
    { params: { site_id: siteId, begin } },
  )
  const scope = {
    ...{ siteId, environment: 'prod' as const, start: undefined, end: undefined, filter: [], cohort: undefined },
    ...{ receivedFrom: begin + 18 * day, receivedUntil: begin + 19 * day },
  }
  const { sql, params } = sliceEndStatement({ scope, after: undefined }, 200_000)
  const { rows } = await owner.query<{ explain: string }>(`EXPLAIN indexes = 1 ${sql}`, params)
  const plan = rows.map(({ explain }) => explain.trim())
  const granules = plan.slice(plan.indexOf('Name: received_at')).find((line) => line.startsWith('Granules: '))
  const [read = 0, all = 0] = (granules ?? '').replace('Granules: ', '').split('/').map(Number)
  // A day of 20, and a part of the granules beside it.
  expect(all).toBeGreaterThanOrEqual(24)
  expect(read).toBeGreaterThan(0)
  expect(read).toBeLessThanOrEqual(3)
})
