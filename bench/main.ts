// npm run bench -- <name>: one figure of docs/benchmarks.md, measured against its reference in the same run.
import { evaluateAlerts } from './alerts.ts'
import { capacity } from './capacity.ts'
import { dashboard } from './dashboard.ts'
import { encode } from './encode.ts'
import { endToEnd } from './end-to-end.ts'
import { exportEvents } from './exports.ts'
import { freshness } from './freshness.ts'
import { gatewayMemory } from './gateway-memory.ts'
import { importNeighbours } from './import-neighbours.ts'
import { importEvents } from './imports.ts'
import { ingestBatch } from './ingest-batch.ts'
import { ingestSingle } from './ingest-single.ts'
import { oldEvents } from './old-events.ts'
import { publishPartitions } from './publish-partitions.ts'
import { environment } from './report.ts'
import { retention } from './retention.ts'
import { stats } from './stats.ts'
import { statsGrouped } from './stats-grouped.ts'
import { writerBacklog } from './writer-backlog.ts'
import { writerShapes } from './writer-shapes.ts'

const benches: Readonly<Record<string, () => Promise<object>>> = {
  alerts: evaluateAlerts,
  capacity,
  dashboard,
  encode,
  'ingest-single': ingestSingle,
  'ingest-batch': ingestBatch,
  'end-to-end': endToEnd,
  exports: exportEvents,
  freshness,
  'gateway-memory': gatewayMemory,
  imports: importEvents,
  'import-neighbours': importNeighbours,
  'old-events': oldEvents,
  'publish-partitions': publishPartitions,
  retention,
  stats,
  'stats-grouped': statsGrouped,
  'writer-backlog': writerBacklog,
  'writer-shapes': writerShapes,
}

const name = process.argv[2] ?? ''
const bench = benches[name]
if (bench === undefined) {
  console.error(`npm run bench -- <name>, with one of: ${Object.keys(benches).join(', ')}`)
  process.exitCode = 1
} else {
  console.log(JSON.stringify({ bench: name, ...(await bench()), environment: environment() }, undefined, 2))
}
