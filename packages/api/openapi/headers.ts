import type { Header, Reference } from './types.ts'

/** The headers of responses, as components. */
export const headers: Record<string, Header> = {
  'X-Request-Id': {
    description: 'Identifies the request in the log output. A valid `X-Request-Id` of the request is returned.',
    required: true,
    schema: { type: 'string', minLength: 1 },
  },
  'X-RateLimit-Limit': rateHeader('Requests, or events, that the key may send in a minute.'),
  'X-RateLimit-Remaining': rateHeader('Requests, or events, that are left in this minute.'),
  'X-RateLimit-Reset': rateHeader(
    'Unix time in seconds at which the limit starts again; in answers to Segment’s clients, the number of seconds until then.',
  ),
  'Retry-After': {
    description: 'Seconds that the client should wait before it repeats the request.',
    required: true,
    schema: { type: 'integer', format: 'int64', minimum: 0 },
  },
  'WWW-Authenticate': {
    description: 'The scheme of the header in which clients send a key: `Bearer realm="Sluice"`.',
    required: true,
    schema: { type: 'string' },
  },
}

function rateHeader(text: string): Header {
  return { description: text, required: true, schema: { type: 'integer', format: 'int64', minimum: 0 } }
}

/** The headers of the answers to a valid credential. */
export const rateHeaders = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'] as const

/** References to `X-Request-Id`, which every response has, and to the headers `names`. */
export function headersOf(names: readonly string[]): Record<string, Reference> {
  return Object.fromEntries(['X-Request-Id', ...names].map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}
