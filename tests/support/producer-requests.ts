import { freshProducerLines } from '../../bench/producers.ts'

export interface ProducerRequests {
  /** The whole request number `n`, head and body, whose `event_id`s end in `requestSuffix(n)`. */
  requestFor: (n: number) => Buffer
  /** How many events request `n` has, and how many of them have an `event_id`. */
  countsOf: (n: number) => { events: number; withId: number }
}

const placeholder = '########'

/** The end of each `event_id` of a request, and of no other event. */
export function requestSuffix(n: number): string {
  return n.toString(16).padStart(placeholder.length, '0')
}

/**
 * Requests with batches of the events that producers send, whose times end now. They are prepared but for the suffixes,
 * so that they cost their sender next to nothing.
 */
export function producerRequests({ key, batchEvents }: { key: string; batchEvents: number }): ProducerRequests {
  const lines = freshProducerLines(placeholder)
  const templates = Array.from({ length: lines.length / batchEvents }, (_, index) =>
    template(key, lines.slice(index * batchEvents, (index + 1) * batchEvents)),
  )
  const templateOf = (n: number): Template => templates[n % templates.length] ?? { bytes: Buffer.alloc(0), offsets: [] }
  return {
    requestFor: (n) => {
      const { bytes, offsets } = templateOf(n)
      const request = Buffer.from(bytes)
      const suffix = requestSuffix(n)
      for (const at of offsets) request.write(suffix, at, 'latin1')
      return request
    },
    countsOf: (n) => ({ events: batchEvents, withId: templateOf(n).offsets.length }),
  }
}

interface Template {
  bytes: Buffer
  /** Where the suffixes are. */
  offsets: number[]
}

function template(key: string, lines: readonly string[]): Template {
  const body = Buffer.from(`{"events":[${lines.join(',')}]}`)
  const head = [
    'POST /collect/batch HTTP/1.1',
    'Host: sluice',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    '\r\n',
  ].join('\r\n')
  const bytes = Buffer.concat([Buffer.from(head), body])
  const offsets: number[] = []
  for (let at = bytes.indexOf(placeholder); at >= 0; at = bytes.indexOf(placeholder, at + 1)) offsets.push(at)
  return { bytes, offsets }
}
