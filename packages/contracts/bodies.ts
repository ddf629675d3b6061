/** Media types of one event (contract section 3). Beacons of browsers send JSON as `text/plain`, which needs no CORS preflight. */
export const eventMediaTypes = ['application/json', 'text/plain'] as const

/** Media types of a batch: the same, holding `{"events": [...]}`, or one event a line. */
export const batchMediaTypes = [...eventMediaTypes, 'application/x-ndjson'] as const

/** `Content-Encoding`s of a body, besides `identity` and none. `x-gzip` is taken too, as gzip's old name. */
export const contentEncodings = ['gzip', 'deflate', 'br', 'zstd'] as const

export type ContentEncoding = (typeof contentEncodings)[number]
