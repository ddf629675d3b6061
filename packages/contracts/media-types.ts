/**
 * Media types of one event (docs/http-interface.md#bodies). Beacons of browsers send JSON as `text/plain`, which needs
 * no CORS preflight.
 */
export const eventMediaTypes = ['application/json', 'text/plain'] as const

/** Media types of a batch: the former hold `{"events": [...]}`, the last one an event on each line. */
export const batchMediaTypes = [...eventMediaTypes, 'application/x-ndjson'] as const

/** `Content-Encoding`s of a body, besides `identity` and none. `x-gzip`, the old name of gzip, is accepted too. */
export const contentEncodings = ['gzip', 'deflate', 'br', 'zstd'] as const

export type ContentEncoding = (typeof contentEncodings)[number]
