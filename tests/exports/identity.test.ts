import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { EventRow } from '@sluice/contracts/event-columns'
import type { ExportSpec } from '@sluice/contracts/exports'
import { type ExportStore, exportStore } from '@sluice/postgres/exports'
import { newId } from '@sluice/runtime/ids'
import { waitUntil } from '@sluice/runtime/wait-until'
import { addExport } from '../support/export-jobs.ts'
import { createImportRig, type ImportRig } from '../support/import-rig.ts'
import { uploadFile } from '../support/uploaded-import.ts'

let rig: ImportRig
let exports: ExportStore
const stops: (() => Promise<void>)[] = []

beforeAll(async () => {
  rig = await createImportRig()
  exports = exportStore(rig.postgres)
  stops.push(await rig.startWriter(), await rig.startWorker())
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
  await rig.drop()
})

/** Texts that a spreadsheet would run, and texts that a parser of these files may misread. */
const texts = ['a', '=1+1', '-2', '-x', "'=x", "''+1", '@', '"', ',;', 'a\r\nb', '\t', '\\', 'é𝄞', '{}', 'null', "'"]

function rowsOf(siteId: string): EventRow[] {
  return Array.from({ length: 500 }, (_, n) => {
    const text = (step: number): string => texts[(n * step) % texts.length] ?? ''
    return {
      site_id: siteId,
      environment: 'prod',
      event_type: text(1),
      timestamp: Date.UTC(2026, 0, 1) + n * 977,
      event_id: `${n}${text(3)}`,
      user_id: text(5),
      session_id: n % 2 === 0 ? text(7) : '',
      url: `https://example.com/?${text(9)}`,
      referrer: text(11),
      country: n % 3 === 0 ? 'DE' : '',
      device_type: n % 3 === 1 ? 'mobile' : '',
      anonymous_id: text(13),
      properties: {
        [`key ${text(3)}`]: text(5),
        'a.b': '9007199254740993',
        price: `0.123456789012345678${n + 1}`,
        small: '-1.0000000000000000001e-40',
        list: '[1,"a",{"b":null},3.00000000000000000001]',
        is: 'true',
      },
      property_types: { 'a.b': 'number', price: 'number', small: 'number', list: 'array', is: 'boolean' },
      received_at: Date.UTC(2026, 0, 2),
    }
  })
}

/** The stored events of a site in an environment, without the fields that an import sets itself. */
async function stored(siteId: string, environment: string): Promise<unknown[]> {
  const { rows } = await rig.clickHouse.query(
    `SELECT event_id, event_type, timestamp, session_id, user_id, anonymous_id, url, referrer, country, device_type,
       mapSort(properties) AS properties, mapSort(property_types) AS property_types
     FROM events WHERE site_id = {site_id:String} AND environment = {environment:String} ORDER BY event_id`,
    { site_id: siteId, environment },
  )
  return rows
}

async function exported(siteId: string, spec: Partial<ExportSpec>): Promise<Buffer> {
  const { exportId } = await addExport(exports, { site: siteId, spec }, Date.now())
  const record = async () => exports.find(exportId, null)
  await waitUntil(async () => (await record())?.status === 'completed', 'the export is completed')
  const chunks: Buffer[] = []
  for await (const chunk of await rig.blobs.read((await record())?.object ?? '')) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

// All formats at a time: an export waits some seconds until everything accepted before it can be read.
describe('what the worker has exported and imported is what was stored', () => {
  test('events, in every format', async () => {
    const specs = [{ format: 'csv' }, { format: 'csv', compression: 'gzip' }, { format: 'json' }, { format: 'ndjson' }]
    await Promise.all((specs as Partial<ExportSpec>[]).map(checkEvents))
  })

  test('users, in every format', async () => {
    await Promise.all((['csv', 'json', 'ndjson'] as const).map(checkUsers))
  })
})

async function checkEvents(spec: Partial<ExportSpec>): Promise<void> {
  const siteId = newId('site')
  const payload = rowsOf(siteId).map((row) => JSON.stringify(row))
  const batch = { payloads: [Buffer.from(payload.join('\n'))], hasUndated: false }
  await rig.inserter.insert(batch, { queryId: siteId, shouldReplaceRunning: false, timeoutMs: 10_000 })
  const file = await exported(siteId, spec)
  const text = (spec.compression ? gunzipSync(file) : file).toString()
  const { importId } = await uploadFile(rig, [text], { siteId, environment: 'dev' })
  expect(await rig.ended(importId)).toMatchObject({ status: 'completed', totalRecords: 500, failedRecords: 0 })
  const expected = await stored(siteId, 'prod')
  expect(expected).toHaveLength(500)
  expect(await stored(siteId, 'dev')).toStrictEqual(expected)
}

async function checkUsers(format: ExportSpec['format']): Promise<void> {
  const siteId = newId('site')
  const users = async (environment: string) => {
    const { rows } = await rig.clickHouse.query(
      `SELECT user_id, email, name, company, plan FROM users FINAL
       WHERE site_id = {site_id:String} AND environment = {environment:String} ORDER BY user_id`,
      { site_id: siteId, environment },
    )
    return rows
  }
  const lines = texts.map((text, n) => JSON.stringify({ user_id: `u${n}`, email: text, name: `${text}é`, plan: 'pro' }))
  const first = await uploadFile(rig, [lines.join('\n')], { siteId, type: 'users' })
  expect(await rig.ended(first.importId)).toMatchObject({ status: 'completed', failedRecords: 0 })
  const file = await exported(siteId, { type: 'users', format })
  const second = await uploadFile(rig, [file.toString()], { siteId, type: 'users', environment: 'dev' })
  expect(await rig.ended(second.importId)).toMatchObject({ status: 'completed', failedRecords: 0 })
  expect(await users('prod')).toHaveLength(texts.length)
  expect(await users('dev')).toStrictEqual(await users('prod'))
}
