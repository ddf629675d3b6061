import type { Operation } from '../operation.ts'
import type { Header, JsonSchema, MediaType, Parameter, Response } from './types.ts'

/** Bytes. Generators of clients make a file or a stream of `binary`, which is only an annotation in OpenAPI 3.1. */
export const bytes: JsonSchema = { type: 'string', format: 'binary' }

/** The contents of a response that is a file of one of `types`. A file of JSON is a JSON value, which is no text. */
export function fileContents(types: readonly string[] = []): Record<string, MediaType> {
  return Object.fromEntries(types.map((type) => [type, { schema: type === 'application/json' ? {} : bytes }]))
}

/** A file that is made for the request has neither a tag nor ranges. */
export function hasRanges({ file, data }: Operation['response']): boolean {
  return file !== undefined && data === undefined
}

/** The headers of a request for a file with ranges, as packages/http/send-file.ts reads them. */
export const rangeParameters: readonly Parameter[] = [
  headerParameter('Range', 'One range of the file, e.g. `bytes=0-1023`. For several ranges, the whole file is sent.'),
  headerParameter('If-Range', 'The `ETag` of the file. If the file is another one, the whole file is sent.'),
  headerParameter('If-Match', 'The `ETag` of the file. If the file is another one, the answer is 412.'),
  headerParameter(
    'If-None-Match',
    'The `ETag` of the file that the client has. If it is this file, the answer is 304.',
  ),
]

function headerParameter(name: string, description: string): Parameter {
  return { name, in: 'header', description, schema: { type: 'string' } }
}

const text = { type: 'string' }
const etag: Header = { description: 'The `ETag` of the file.', required: true, schema: text }

/** The headers of a successful response that is a file, or may be one. */
export function fileHeaders(response: Operation['response']): Record<string, Header> {
  if (!response.file) return {}
  const name: Header = {
    description: '`attachment` with the name of the file.',
    ...(response.data === undefined && { required: true }),
    schema: text,
  }
  if (!hasRanges(response)) return { 'Content-Disposition': name }
  return {
    'Content-Disposition': name,
    ETag: etag,
    'Accept-Ranges': { description: '`bytes`', required: true, schema: { const: 'bytes' } },
  }
}

/** The header of 206 and of 416. */
export const contentRange: Readonly<Record<string, Header>> = {
  'Content-Range': {
    description: 'The range that is sent, and the size of the file: `bytes 0-1023/4096`; in a 416 `bytes */4096`.',
    required: true,
    schema: text,
  },
}

/** The header of a 409 to a download. */
export const waitForFile: Readonly<Record<string, Header>> = {
  'Retry-After': {
    description: 'Seconds that the client should wait for the file; absent if it will not be ready.',
    schema: { type: 'integer', format: 'int64', minimum: 0 },
  },
}

/** The response 206 to a request for a range of a file whose response is otherwise `whole`. */
export function partOf(whole: Response): Response {
  return { ...whole, description: 'The requested range of the file', headers: { ...whole.headers, ...contentRange } }
}

/** The response 304; `headers` are those of every response. */
export function notModified(headers: Response['headers']): Response {
  const description = 'The client already has the file: `If-None-Match` names its `ETag`'
  return { description, headers: { ...headers, ETag: etag }, content: {} }
}
