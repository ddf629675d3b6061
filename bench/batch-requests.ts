import { freshLines } from './shapes.ts'

/**
 * Creates requests that post batches of new events in the shapes of real producers, or in the plain shape if
 * BENCH_SHAPE is `plain`. The requests are prepared except for the ids and sites, which differ in each request and take
 * the load generator little time. The timestamps of the events end at the time of the call.
 */
export function batchRequests({ key, events, sites }: { key: string; events: number; sites: number }) {
  const run = '%run%'
  const site = '%site%'
  const lines = freshLines(run).map((line) =>
    line.replace(/"site_id":"[^"]*"/, `"site_id":"${sites === 1 ? 'shop' : site}"`),
  )
  const bodies = Array.from({ length: Math.floor(lines.length / events) }, (_, n) =>
    `{"events":[${lines.slice(n * events, (n + 1) * events).join(',')}]}`.split(site),
  )
  return (n: number): Buffer => {
    const parts = bodies[n % bodies.length] ?? []
    // A batch of many sites has random sites, like that of an agent of many producers.
    const text = parts.map((part, at) => (at === 0 ? part : `site-${(n * 31 + at * 7) % sites}${part}`)).join('')
    const filled = text.replaceAll(run, n.toString(36))
    const head = [
      'POST /collect/batch HTTP/1.1',
      'Host: sluice',
      `Authorization: Bearer ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(filled)}`,
    ]
    return Buffer.from(`${head.join('\r\n')}\r\n\r\n${filled}`)
  }
}
