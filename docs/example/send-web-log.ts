// npm run example: sends the web log of this folder to a running Sluice, in the batches that a producer would send, and
// waits until every event is counted.
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'

const batchEvents = 2_000
const pollMs = 100
const sendAttemptsMax = 60
/** Events are counted within a second; so long after the last 202, something is wrong. */
const visibleMsMax = 60_000
/** What a service answers for a path that only another service has. */
const unknownPath = 'Not found'

const url = process.env.SLUICE_URL ?? `http://127.0.0.1:${process.env.SLUICE_PORT ?? 8080}`
/** The gateway, which has an address of its own where the services run apart. */
const collectUrl = process.env.SLUICE_COLLECT_URL ?? url
const key = process.env.SLUICE_KEY
if (key === undefined) {
  fail('Set SLUICE_KEY to a key with the scope events:write: the admin key that the first start printed will do.')
}

const file = await readFile(new URL('web-log.ndjson.gz', import.meta.url))
const lines = (await promisify(gunzip)(file)).toString('utf8').trimEnd().split('\n')
const expected = JSON.parse(await readFile(new URL('web-log.expected.json', import.meta.url), 'utf8')) as {
  start_date: number
  end_date: number
}
const range = `site_id=web-log&start_date=${expected.start_date}&end_date=${expected.end_date}`

for (let from = 0; from < lines.length; from += batchEvents) {
  const batch = lines.slice(from, from + batchEvents)
  const body = await promisify(gzip)(batch.join('\n'))
  const send = () =>
    request(collectUrl, '/collect/batch', {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-ndjson', 'Content-Encoding': 'gzip' },
      body,
    })
  let { status, answer } = await send()
  // Sluice asks for another attempt. The events have ids: those that are stored already are not stored twice.
  for (let attempt = 1; status === 503 && attempt < sendAttemptsMax; attempt++) {
    await sleep(1_000)
    ;({ status, answer } = await send())
  }
  if (answer.error === unknownPath)
    fail(`${collectUrl} takes no events: set SLUICE_COLLECT_URL to the address of the gateway.`)
  if (status !== 202) fail(`Sluice answered ${status}: ${answer.error ?? 'no reason'}`)
  showProgress(`Sent ${from + batch.length} of ${lines.length} events.`)
}
const isCounted = await waitUntilCounted()
endProgress()

console.log(`
The site web-log has ${lines.length} events, of 17 to 20 May 2015.${isCounted ? '' : ' They are counted in a moment.'} Ask for its users by day:

  curl -s "${url}/api/v1/stats?${range}&metric=unique_users&group_by=day" \\
    -H "Authorization: Bearer $SLUICE_KEY"

More questions: ${url}/docs`)

/** Shows how many events are counted until all are; returns false if the key can't ask. */
async function waitUntilCounted(): Promise<boolean> {
  const deadline = performance.now() + visibleMsMax
  for (;;) {
    const { status, answer } = await request(url, `/api/v1/stats?${range}&metric=event_count`)
    // A key that may only write.
    if (status === 403) return false
    if (answer.error === unknownPath) {
      fail(
        `The events are sent, but ${url} answers no queries: set SLUICE_URL to the address of the query service, and ` +
          'SLUICE_COLLECT_URL to that of the gateway.',
      )
    }
    const counted = answer.data?.value ?? 0
    if (status === 200) showProgress(`Counted ${counted} of ${lines.length} events.`)
    if (counted >= lines.length) return true
    if (performance.now() > deadline) {
      fail(`${counted} of ${lines.length} events are counted: does a writer run? ${url}/readyz says what is missing.`)
    }
    await sleep(pollMs)
  }
}

interface Answer {
  error?: string
  data?: { value?: number }
}

async function request(
  base: string,
  path: string,
  { headers = {}, ...init }: Omit<RequestInit, 'headers'> & { headers?: Record<string, string> } = {},
): Promise<{ status: number; answer: Answer }> {
  try {
    const response = await fetch(`${base}${path}`, {
      ...init,
      headers: { Authorization: `Bearer ${key}`, ...headers },
    })
    return { status: response.status, answer: (await response.json()) as Answer }
  } catch {
    const variable = base === process.env.SLUICE_COLLECT_URL ? 'SLUICE_COLLECT_URL' : 'SLUICE_URL'
    return fail(
      `No Sluice answers at ${base}: start it with npm start, or set ${variable}, for example to http://127.0.0.1:8080.`,
    )
  }
}

/** Replaces the last line in a terminal; a file gets each line. */
function showProgress(line: string): void {
  process.stdout.write(process.stdout.isTTY ? `\r\x1b[K${line}` : `${line}\n`)
}

function endProgress(): void {
  if (process.stdout.isTTY) process.stdout.write('\n')
}

function fail(message: string): never {
  if (process.stdout.isTTY) process.stdout.write('\r\x1b[K')
  console.error(message)
  process.exit(1)
}
