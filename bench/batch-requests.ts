import { benchEvent } from './events.ts'

/**
 * Creates requests that post batches of new events. They are prepared except for the ids and timestamps, which are new in
 * each request and cost the load generator next to nothing.
 */
export function batchRequests({ key, events, sites }: { key: string; events: number; sites: number }) {
  const run = '0'.repeat(8)
  const second = '1'.repeat(10)
  const body = JSON.stringify({
    events: Array.from({ length: events }, (_, n) => ({
      ...benchEvent(n),
      event_id: `${run}-${n}`,
      timestamp: Number(`${second}${String(n % 1000).padStart(3, '0')}`),
      site_id: sites === 1 ? 'shop' : '%site%',
    })),
  })
  const parts = body.split('%site%')
  return (n: number): Buffer => {
    // A batch of many sites has random sites, like that of an agent of many producers.
    const text = parts.map((part, at) => (at === 0 ? part : `site-${(n * 31 + at * 7) % sites}${part}`)).join('')
    const filled = text
      .replaceAll(run, n.toString(36).padStart(8, '0'))
      .replaceAll(second, String(Math.floor(Date.now() / 1000) - 1))
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
