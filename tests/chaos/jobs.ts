import { readdir } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { createGunzip, gunzipSync, zstdDecompressSync } from 'node:zlib'
import type { ErasureResource } from '@sluice/contracts/erasures'
import type { ExportResource } from '@sluice/contracts/exports'
import type { ImportError } from '@sluice/contracts/imports'
import { splitFields } from '@sluice/imports/csv-fields'
import { exportStore } from '@sluice/postgres/exports'
import { importStore } from '@sluice/postgres/imports'
import { removeUnneededExportFiles } from '@sluice/worker/exports/export-files'
import { removeUnneededImportFiles } from '@sluice/worker/imports/import-files'
import {
  badLines,
  csvOf,
  expectedRows,
  type GeneratedEvent,
  generateEvents,
  storedRows,
} from '../support/imported-events.ts'
import { uploadFile } from '../support/uploaded-import.ts'
import type { JobsRig } from './jobs-rig.ts'
import { type KillOptions, killWorkers } from './kill-workers.ts'
import { seededRandom } from './random.ts'
import type { Outcome, Say } from './scenario.ts'

export interface JobsOptions {
  seed: number
  /** Events of the imported file, which also has a tenth as many records that fail. */
  events: number
  /** Workers that are killed during imports, as many during exports and as many during erasures. */
  kills: number
  say: Say
}

const site = 'killed'
const runMsMax = 590_000
const dayMs = 86_400_000
/** Records of a segment: small, so that a file has many units of work. */
const segmentRecords = 8_000
/** Files that a new worker continues, and files that it begins again. */
const files = [
  { format: 'ndjson' },
  { format: 'csv', compression: 'gzip' },
  { format: 'json' },
  { format: 'ndjson', compression: 'zstd' },
  { format: 'csv' },
] as const
const firstMs = Date.UTC(2025, 0, 1)
const erasedDays = 9

/** What a run notes. */
interface Findings {
  problems: string[]
  details: unknown[]
}

/**
 * Kills workers at random moments of an import, of exports of its rows, and of erasures of a part of them. After each
 * job its counts, rows and files are compared with the file that was imported. At the end the site is deleted and
 * registered again.
 */
export async function jobs(rig: JobsRig, { seed, events: count, kills, say }: JobsOptions): Promise<Outcome> {
  const findings: Findings = { problems: [], details: [] }
  const deadline = Date.now() + runMsMax
  const events = generateEvents(count)
  const step = (n: number): Omit<KillOptions, 'kills'> => ({ random: seededRandom(seed, n), say, deadline })
  await call(rig, '/api/v1/sites', { site_id: site })

  const imported = await underKills(kills, (left) => importFile(rig, events, { ...step(0), kills: left }, findings))
  const exportIds: string[] = []
  const exported = await underKills(kills, async (left, round) => {
    const file = files[round % files.length] ?? files[0]
    const { exportId, killed } = await exportFile(rig, { file, events }, { ...step(1 + round), kills: left }, findings)
    exportIds.push(exportId)
    return killed
  })
  const left = await checkFiles(rig, exportIds, findings)
  const erased = await underKills(kills, (n, round) =>
    erase(rig, { events, round }, { ...step(100 + round), kills: n }, findings),
  )
  await checkFiles(rig, [], findings)
  const kept = events.filter(({ timestamp }) => timestamp >= erasedUntil(erased.jobs))
  const deleted = await eraseSite(rig, { kept, kills: Math.ceil(kills / 4) }, step(200), findings)
  const figures = { events: count, imports: imported, exports: exported, erasures: erased, deleted, ...left }
  return { figures, ...findings }
}

/** Repeats jobs until the kills are used up. */
async function underKills(kills: number, job: (left: number, round: number) => Promise<number>) {
  let killed = 0
  let rounds = 0
  while (killed < kills) killed += await job(kills - killed, rounds++)
  return { jobs: rounds, kills: killed }
}

async function importFile(
  rig: JobsRig,
  events: readonly GeneratedEvent[],
  options: KillOptions,
  findings: Findings,
): Promise<number> {
  const imports = importStore(rig.postgres)
  const stores = { imports, blobs: rig.blobs }
  const { importId } = await uploadFile(stores, csvOf(events), { siteId: site, segmentRecords })
  const killed = await killWorkers(rig, { kind: 'import', id: importId }, options)
  const failed = Math.floor(events.length / 10)
  const record = await imports.find(importId, null)
  expectEqual(findings, `counts of ${importId}`, [
    [record?.status, record?.totalRecords, record?.processedRecords, record?.failedRecords].join(),
    ['completed', events.length + failed, events.length + failed, failed].join(),
  ])
  compare(findings, `rows of ${importId}`, await storedRows(rig.clickHouse, site), expectedRows(events))
  const lines: string[] = []
  for (const { errorsObject } of await imports.segments(importId)) {
    if (errorsObject === null) continue
    const errors = await text((await rig.blobs.read(errorsObject)).pipe(createGunzip()))
    for (const line of errors.trimEnd().split('\n')) lines.push(String((JSON.parse(line) as ImportError).line))
  }
  compare(findings, `errors of ${importId}`, lines.sort(), badLines(events.length).map(String).sort())
  options.say(`${importId} is completed and compared`)
  return killed
}

async function exportFile(
  rig: JobsRig,
  { file, events }: { file: (typeof files)[number]; events: readonly GeneratedEvent[] },
  options: KillOptions,
  findings: Findings,
): Promise<{ exportId: string; killed: number }> {
  const created = await call<ExportResource>(rig, '/api/v1/exports', { site_id: site, type: 'events', ...file })
  const { export_id: exportId } = created
  const killed = await killWorkers(rig, { kind: 'export', id: exportId }, options)
  const record = await call<ExportResource>(rig, `/api/v1/exports/${exportId}`)
  const content = await download(rig, exportId)
  expectEqual(findings, `counts of ${exportId}`, [
    [record.status, record.rows, record.bytes].join(),
    ['completed', events.length, content.length].join(),
  ])
  compare(findings, `rows of ${exportId}`, rowsOf(content, file), expectedRows(events))
  options.say(`${exportId} (${Object.values(file).join(', ')}) is completed and compared`)
  return { exportId, killed }
}

async function download({ query, key }: JobsRig, exportId: string): Promise<Buffer> {
  const response = await fetch(`${query.url}/api/v1/exports/${exportId}/download`, {
    headers: { Authorization: `Bearer ${key}` },
  })
  if (!response.ok) throw new Error(`the download of ${exportId} was answered ${response.status}`)
  return Buffer.from(await response.arrayBuffer())
}

/** The rows of a file in the form of `expectedRows`. */
function rowsOf(content: Buffer, file: (typeof files)[number]): string[] {
  const lines = unpacked(content, file).toString().trimEnd()
  if (file.format === 'csv') return csvRows(lines.split('\n'))
  const rows = JSON.parse(file.format === 'json' ? lines : `[${lines.replaceAll('\n', ',')}]`) as Row[]
  return rows
    .map(({ event_id, event_type, timestamp_ms, url, country, properties }) =>
      JSON.stringify([event_id, event_type, timestamp_ms, url, country ?? '', properties.plan]),
    )
    .sort()
}

function unpacked(content: Buffer, file: (typeof files)[number]): Buffer {
  if (!('compression' in file)) return content
  return file.compression === 'gzip' ? gunzipSync(content) : zstdDecompressSync(content)
}

interface Row {
  event_id: string
  event_type: string
  timestamp_ms: number
  url: string
  country?: string | null
  properties: { plan: string }
}

function csvRows([header = '', ...lines]: readonly string[]): string[] {
  const names = splitFields(header, ',')
  const columns = ['event_id', 'event_type', 'timestamp_ms', 'url', 'country', 'properties'].map((name) =>
    names.indexOf(name),
  )
  return lines
    .map((line) => {
      const fields = splitFields(line, ',')
      const [id, type, timestamp, url, country, properties = ''] = columns.map((column) => fields[column])
      return JSON.stringify([
        id,
        type,
        Number(timestamp),
        url,
        country,
        (JSON.parse(properties) as { plan: string }).plan,
      ])
    })
    .sort()
}

/** Unix ms, exclusive: the time before which this many erasures have erased all events. */
function erasedUntil(rounds: number): number {
  return firstMs + rounds * erasedDays * dayMs
}

/**
 * Deletes the site, which is registered again at once. Events that are sent afterwards stay; no earlier event stays.
 */
async function eraseSite(
  rig: JobsRig,
  { kept, kills }: { kept: readonly GeneratedEvent[]; kills: number },
  options: Omit<KillOptions, 'kills'>,
  findings: Findings,
): Promise<{ kills: number }> {
  const { erasure_id: id } = await call<ErasureResource>(rig, `/api/v1/sites/${site}`, undefined, 'DELETE')
  await call(rig, '/api/v1/sites', { site_id: site })
  // Copies of events that are being erased, sent again after the request.
  const sentAgain = kept.slice(0, 1_000)
  const stores = { imports: importStore(rig.postgres), blobs: rig.blobs }
  const { importId } = await uploadFile(stores, csvOf(sentAgain), { siteId: site, segmentRecords })
  const killed = await killWorkers(rig, { kind: 'erasure', id }, { ...options, kills })
  await killWorkers(rig, { kind: 'import', id: importId }, { ...options, kills: 0 })
  const record = await call<ErasureResource>(rig, `/api/v1/sites/${site}/erasures/${id}`)
  expectEqual(findings, `status of ${id}`, [record.status, 'completed'])
  compare(findings, `rows after ${id}`, await storedRows(rig.clickHouse, site), expectedRows(sentAgain))
  options.say(`${id}, of the site, is completed and compared`)
  return { kills: killed }
}

async function erase(
  rig: JobsRig,
  { events, round }: { events: readonly GeneratedEvent[]; round: number },
  options: KillOptions,
  findings: Findings,
): Promise<number> {
  const [from, before] = [erasedUntil(round), erasedUntil(round + 1)]
  const path = `/api/v1/sites/${site}/erasures`
  const { erasure_id: erasureId } = await call<ErasureResource>(rig, path, { before })
  const killed = await killWorkers(rig, { kind: 'erasure', id: erasureId }, options)
  const record = await call<ErasureResource>(rig, `${path}/${erasureId}`)
  const count = events.filter(({ timestamp }) => timestamp < before && (round === 0 || timestamp >= from)).length
  expectEqual(findings, `counts of ${erasureId}`, [[record.status, record.count].join(), ['completed', count].join()])
  const kept = events.filter(({ timestamp }) => timestamp >= before)
  compare(findings, `rows after ${erasureId}`, await storedRows(rig.clickHouse, site), expectedRows(kept))
  options.say(`${erasureId} is completed and compared`)
  return killed
}

/**
 * Checks that there is one file for each export, and nothing else after the leftovers of killed workers were removed.
 */
async function checkFiles(rig: JobsRig, exportIds: readonly string[], findings: Findings) {
  const { blobs, blobsFolder, temporaryFolder, postgres } = rig
  const imports = importStore(postgres)
  const uploads = async () => namesOf(blobs.listMultipartUploads())
  const leftByKills = (await uploads()).length
  // Incomplete files of killed workers are removed a day later.
  const clock = { now: () => Date.now() + 2 * dayMs }
  await removeUnneededImportFiles({ blobs, imports, clock })
  await removeUnneededExportFiles({ blobs, exports: exportStore(postgres), clock })
  compare(findings, 'uploads that are left', await uploads(), [])
  const names = await namesOf(blobs.list(''))
  const isErrors = (name: string): boolean => /^imports\/[^/]+\/errors\/\d+$/.test(name)
  compare(
    findings,
    'files',
    // Without the number of the attempt.
    names.filter((name) => !isErrors(name)).map((name) => name.replace(/\.\d+$/, '')),
    exportIds.map((id) => `export-files/${id}`).sort(),
  )
  if (blobsFolder !== undefined) {
    const entries = await readdir(blobsFolder, { recursive: true, withFileTypes: true })
    const onDisk = entries.filter((entry) => entry.isFile()).length
    expectEqual(findings, 'files on the disk', [onDisk, names.length])
  }
  compare(findings, 'temporary files', await readdir(temporaryFolder), [])
  return { uploads_removed: leftByKills }
}

async function namesOf(listed: AsyncIterable<{ name: string }>): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of listed) names.push(name)
  return names.sort()
}

async function call<Data>(
  { query, key }: JobsRig,
  path: string,
  body?: object,
  method = body === undefined ? 'GET' : 'POST',
): Promise<Data> {
  const response = await fetch(`${query.url}${path}`, {
    method,
    ...(body && { body: JSON.stringify(body) }),
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
  })
  const answer = (await response.json()) as { data: Data; error?: string }
  if (!response.ok) throw new Error(`${path} was answered ${response.status}: ${answer.error}`)
  return answer.data
}

function expectEqual<T>({ problems }: Findings, what: string, [found, expected]: [T, T]): void {
  if (found !== expected) problems.push(`${what}: ${String(found)} instead of ${String(expected)}`)
}

/** Compares sorted lists, in which an item may occur more than once. */
function compare(findings: Findings, what: string, found: readonly string[], expected: readonly string[]): void {
  const counts = new Map<string, number>()
  for (const item of expected) counts.set(item, (counts.get(item) ?? 0) + 1)
  for (const item of found) counts.set(item, (counts.get(item) ?? 0) - 1)
  const missing = [...counts].filter(([, count]) => count > 0).map(([item]) => item)
  const extra = [...counts].filter(([, count]) => count < 0).map(([item]) => item)
  if (missing.length + extra.length === 0) return
  findings.problems.push(`${what}: ${missing.length} are missing, ${extra.length} are too many`)
  findings.details.push({ what, missing: missing.slice(0, 3), extra: extra.slice(0, 3) })
}
