import type { ErrorStatus } from '../error-status.ts'

/** For each status, its meaning and the name of its response among the components. */
export const failures: Readonly<Record<ErrorStatus, { name: string; meaning: string }>> = {
  400: { name: 'BadRequest', meaning: '`Missing required field: …`, `Invalid field: …` or `Invalid format: …`' },
  401: {
    name: 'Unauthorized',
    meaning: '`Invalid API key`: the credential is missing, unknown, mistyped, expired or revoked',
  },
  403: {
    name: 'Forbidden',
    meaning: '`Insufficient scope: requires …`, `Key is not allowed for this site` or `Cross-site request refused`',
  },
  404: {
    name: 'NotFound',
    meaning: '`… not found`: the object is unknown, or belongs to a site that the key may not read',
  },
  405: {
    name: 'MethodNotAllowed',
    meaning: 'The path does not accept this method; `Allow` names those that it accepts',
  },
  409: { name: 'Conflict', meaning: 'The object exists already, is not ready, or was changed by another request' },
  410: { name: 'Gone', meaning: 'The object existed, but is no longer stored' },
  412: { name: 'PreconditionFailed', meaning: '`If-Match` names another file than the present one' },
  413: { name: 'TooLarge', meaning: 'The body is larger than allowed, before or after decompression' },
  415: { name: 'UnsupportedMediaType', meaning: 'The media type, charset or encoding of the body is not accepted' },
  416: {
    name: 'RangeNotSatisfiable',
    meaning: 'The file ends before the requested range; `Content-Range` names its size',
  },
  429: { name: 'TooManyRequests', meaning: '`Rate limit exceeded. Retry after <n> seconds.`' },
  500: {
    name: 'InternalError',
    meaning: '`Internal server error`: a fault of Sluice; its log output has the cause under the request id',
  },
  503: { name: 'Unavailable', meaning: '`Service temporarily unavailable`: repeat the request' },
}
