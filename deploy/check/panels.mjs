// Runs every query of deploy/grafana on a Prometheus that scrapes a Sluice under a small load, and fails on one without
// a result. Prints the scrape for `promtool check metrics` to the file that the second parameter names.
// Usage: node deploy/check/panels.mjs <path of prometheus> <file for the scrape>
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, URL } from 'node:url'
import { generateKey } from '../../packages/access/api-key.ts'
/* global console, fetch */

const deploy = fileURLToPath(new URL('../', import.meta.url))
const root = join(deploy, '..')
const [prometheusBinary, scrapeFile] = process.argv.slice(2)
const startMsMax = 240_000
const fillMsMax = 300_000
const site = 'panels'
const key = generateKey('prod')

/** Queries that a standalone can't fill, each with the reason. A query that is filled must not be here. */
const onlyElsewhere = new Map([['min(sluice_backup_age_seconds)', 'there is no backup yet']])

const folder = mkdtempSync(join(tmpdir(), 'sluice-panels-'))
const children = []

function start(command, parameters, options = {}) {
  const child = spawn(command, parameters, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  const output = { text: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output.text = (output.text + chunk).slice(-20_000)
    })
  }
  children.push(child)
  return { child, output }
}

async function freePort() {
  const server = createTcpServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Repeats `attempt` until it returns something, for `ms` at most; `describe` says what was missing. */
async function until(ms, attempt, describe) {
  const end = Date.now() + ms
  for (;;) {
    const result = await attempt()
    if (result !== undefined) return result
    if (Date.now() > end) throw new Error(`${describe()} after ${ms / 1000} s`)
    await sleep(500)
  }
}

async function post(url, key, body) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (response.status >= 500) throw new Error(`POST ${url} answered ${response.status}: ${text}`)
  return response.status
}

/**
 * One round of the load: recent and old events, a refused event, queries, and an export. A webhook gets a delivery when
 * the export has ended.
 */
async function sendRound(origin, key, round) {
  const events = Array.from({ length: 20 }, (_, index) => ({
    site_id: site,
    event_type: 'pageview',
    user_id: `user-${index % 5}`,
    url: `https://example.com/${index % 3}`,
    timestamp: index === 0 ? Date.now() - 100 * 86_400_000 : Date.now(),
  }))
  const status = await post(`${origin}/collect/batch`, key, { events: [...events, { site_id: site }] })
  if (status !== 202) throw new Error(`POST /collect/batch answered ${status}`)
  await post(`${origin}/collect`, key, { site_id: site, event_type: 'signup', user_id: `user-${round % 5}` })
  if (round % 10 === 5) {
    const exported = await post(`${origin}/api/v1/exports`, key, { site_id: site, type: 'events', format: 'csv' })
    if (exported !== 202 && exported !== 201 && exported !== 429)
      throw new Error(`POST /api/v1/exports answered ${exported}`)
  }
  const headers = { Authorization: `Bearer ${key}` }
  const range = `start_date=${Date.now() - 3_600_000}&end_date=${Date.now()}`
  const paths = [
    `stats?site_id=${site}&metric=event_count&${range}`,
    `stats?site_id=${site}&metric=unique_users&${range}`,
    `live?site_id=${site}`,
    `events?site_id=${site}&${range}&limit=5`,
  ]
  await Promise.all(
    paths.map(async (path) => {
      const response = await fetch(`${origin}/api/v1/${path}`, { headers })
      const text = await response.text()
      if (response.status >= 400 && round > 20) throw new Error(`${path} answered ${response.status}: ${text}`)
    }),
  )
}

async function main() {
  const [port, metricsPort, prometheusPort] = [await freePort(), await freePort(), await freePort()]
  const origin = `http://127.0.0.1:${port}`
  const sluice = start(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', join(root, 'services/standalone/main.ts')],
    {
      cwd: folder,
      env: {
        ...process.env,
        SLUICE_HOST: '127.0.0.1',
        SLUICE_PORT: String(port),
        SLUICE_METRICS_PORT: String(metricsPort),
        SLUICE_DATA_DIR: join(folder, 'data'),
        SLUICE_ADMIN_KEY: key,
        SLUICE_CANARY_COLLECT_URL: origin,
        SLUICE_CANARY_API_KEY: key,
      },
    },
  )
  await until(
    startMsMax,
    () => {
      if (sluice.child.exitCode !== null) throw new Error(`Sluice ended: ${sluice.output.text}`)
      return sluice.output.text.includes('Sluice is ready') ? true : undefined
    },
    () => `Sluice was not ready: ${sluice.output.text}`,
  )

  // The first events register the site.
  await sendRound(origin, key, 0)
  const receiver = createServer((request, response) => {
    request.resume()
    response.writeHead(204).end()
  })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  receiver.unref()
  const created = await post(`${origin}/api/v1/webhooks`, key, {
    site_id: site,
    url: `http://127.0.0.1:${receiver.address().port}/`,
    events: ['export.completed'],
  })
  if (created !== 201) throw new Error(`POST /api/v1/webhooks answered ${created}`)

  writeFileSync(
    join(folder, 'prometheus.yml'),
    `global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [${join(deploy, 'prometheus/rules.yaml')}, ${join(deploy, 'prometheus/alerts.yaml')}]
scrape_configs:
  - job_name: sluice
    static_configs: [{ targets: ['127.0.0.1:${metricsPort}'] }]
`,
  )
  const prometheus = start(prometheusBinary, [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'tsdb')}`,
    `--web.listen-address=127.0.0.1:${prometheusPort}`,
  ])

  const panels = readdirSync(join(deploy, 'grafana'))
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) =>
      JSON.parse(readFileSync(join(deploy, 'grafana', file), 'utf8')).panels.flatMap(({ title, targets }) =>
        targets.map(({ expr }) => ({ name: `${file}: ${title}`, expr })),
      ),
    )
  const query = async (expr) => {
    const url = new URL(`http://127.0.0.1:${prometheusPort}/api/v1/query`)
    url.searchParams.set('query', expr.replaceAll('$__rate_interval', '1m'))
    const response = await fetch(url)
    // Prometheus is not ready yet.
    if (response.status === 503) return []
    const { status, data, error } = await response.json()
    if (status !== 'success') throw new Error(`${expr}: ${error}`)
    return data.result.filter(({ value }) => value[1] !== 'NaN')
  }

  let empty = panels
  let round = 0
  await until(
    fillMsMax,
    async () => {
      if (prometheus.child.exitCode !== null) throw new Error(`Prometheus ended: ${prometheus.output.text}`)
      await sendRound(origin, key, round++)
      const results = await Promise.all(
        panels.map(({ expr }) =>
          query(expr).catch((error) => (error instanceof TypeError ? [] : Promise.reject(error))),
        ),
      )
      empty = panels.filter((_, index) => results[index].length === 0)
      return empty.every(({ expr }) => onlyElsewhere.has(expr)) ? true : undefined
    },
    () => `Queries without a result:\n${empty.map(({ name, expr }) => `  ${name}: ${expr}`).join('\n')}\n`,
  )
  const stale = [...onlyElsewhere.keys()].filter((expr) => !empty.some((panel) => panel.expr === expr))
  if (stale.length > 0)
    throw new Error(`No panel asks this, or it is filled; take it off the list: ${stale.join('; ')}`)
  writeFileSync(scrapeFile, await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text())

  console.log(`${panels.length} queries, ${panels.length - empty.length} with a result.`)
  for (const { name, expr } of empty) console.log(`Not to be filled here: ${name} (${onlyElsewhere.get(expr)})`)
}

try {
  await main()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  for (const child of children) {
    if (child.exitCode !== null) continue
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
}
