import type { ErrorStatus } from '../error-status.ts'

/** For each status, its meaning and the name of its response among the components. */
export const failures: Readonly<Record<ErrorStatus, { name: string; meaning: string }>> = {
  400: { name: 'BadRequest', meaning: '`Missing required field: …`, `Invalid field: …` or `Invalid format: …`' },
  401: {
    name: 'Unauthorized',
    meaning: '`Invalid API key`: no credential, or an unknown, mistyped, expired or revoked one',
  },
  403: {
    name: 'Forbidden',
    meaning: '`Insufficient scope: requires …`, `Key is not allowed for this site` or `Cross-site request refused`',
  },
  404: { name: 'NotFound', meaning: '`… not found`: unknown, or of a site that the key may not read' },
  405: { name: 'MethodNotAllowed', meaning: 'Wrong method; `Allow` names the right ones' },
  409: { name: 'Conflict', meaning: 'It exists already, is not ready, or was changed meanwhile' },
  410: { name: 'Gone', meaning: 'It was there, and is not kept any longer' },
  412: { name: 'PreconditionFailed', meaning: 'The file is another one than `If-Match` names' },
  413: { name: 'TooLarge', meaning: 'The body is larger than it may be, before or after decompression' },
  415: { name: 'UnsupportedMediaType', meaning: 'A media type, charset or encoding that is not taken' },
  416: { name: 'RangeNotSatisfiable', meaning: 'The file ends before the range; `Content-Range` names its size' },
  429: { name: 'TooManyRequests', meaning: '`Rate limit exceeded. Retry after <n> seconds.`' },
  500: {
    name: 'InternalError',
    meaning: '`Internal server error`: our fault; the log has the cause under the request id',
  },
  503: { name: 'Unavailable', meaning: '`Service temporarily unavailable`: nothing was lost, repeat it' },
}
