// npm run example: sends the web log of this folder to a running Sluice, in the batches that a producer would send.
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'

const batchEvents = 2_000

const url = process.env.SLUICE_URL ?? `http://127.0.0.1:${process.env.SLUICE_PORT ?? 8080}`
const key = process.env.SLUICE_KEY
if (key === undefined) {
  console.error(
    'Set SLUICE_KEY to a key with the scope events:write: the admin key that the first start printed will do.',
  )
  process.exit(1)
}

const file = await readFile(new URL('web-log.ndjson.gz', import.meta.url))
const lines = (await promisify(gunzip)(file)).toString('utf8').trimEnd().split('\n')
for (let from = 0; from < lines.length; from += batchEvents) {
  const batch = lines.slice(from, from + batchEvents)
  const response = await send(batch)
  const answer = (await response.json()) as { error?: string }
  if (!response.ok) {
    console.error(`Sluice answered ${response.status}: ${answer.error ?? 'no reason'}`)
    process.exit(1)
  }
}
console.log(`Sent ${lines.length} events of the site web-log, 17 to 20 May 2015.`)

async function send(batch: readonly string[]): Promise<Response> {
  try {
    return await fetch(`${url}/collect/batch`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/x-ndjson', 'Content-Encoding': 'gzip' },
      body: await promisify(gzip)(batch.join('\n')),
    })
  } catch {
    console.error(`No Sluice answers at ${url}: start it with npm start, or set SLUICE_URL.`)
    process.exit(1)
  }
}
