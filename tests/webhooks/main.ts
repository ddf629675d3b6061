// npm run chaos:deliveries: deliveries to receivers that fail in every way, while the workers are killed
// (killed-workers.ts).
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startPostgres } from '@sluice/engines/postgres'
import { migratePostgres } from '@sluice/postgres/migrate'
import { openPostgres } from '@sluice/postgres/open'
import { killWorkers } from './killed-workers.ts'

const { values } = parseArgs({
  options: {
    deliveries: { type: 'string', default: '10000' },
    kills: { type: 'string', default: '30' },
    seed: { type: 'string', default: '1' },
  },
})
const folder = await mkdtemp(join(tmpdir(), 'sluice-deliveries-'))
const engine = await startPostgres({ dir: join(folder, 'postgres'), durable: false })
const postgres = { ...openPostgres(engine.url), url: engine.url }
try {
  await migratePostgres(postgres)
  const startedAt = performance.now()
  const { problems, ...figures } = await killWorkers(postgres, {
    deliveries: Number(values.deliveries),
    kills: Number(values.kills),
    seed: Number(values.seed),
    timeoutMs: 100,
    step: 0.02,
    say: (line) => {
      process.stderr.write(`${line}\n`)
    },
  })
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  for (const problem of problems.slice(0, 100)) process.stderr.write(`${problem}\n`)
  console.log(JSON.stringify({ passed: problems.length === 0, problems: problems.length, ...figures, seconds }))
  process.exitCode = problems.length === 0 ? 0 : 1
} finally {
  await postgres.close()
  await engine.stop()
  await rm(folder, { recursive: true, force: true })
}
