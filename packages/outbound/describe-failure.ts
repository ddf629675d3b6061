import { errors } from 'undici'
import { errorCode } from '@sluice/runtime/errors'
import { HostNotResolvedError } from './resolve-host.ts'
import { TargetRefusedError } from './target-url.ts'

/** A failure whose message users may read. */
export class OutboundFailure extends Error {
  override readonly name = 'OutboundFailure'
}

/** Texts by the error code of the system, of Node or of undici. */
const texts: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset by the receiver',
  EPIPE: 'connection reset by the receiver',
  EHOSTUNREACH: 'no route to the receiver',
  ENETUNREACH: 'no route to the receiver',
  EADDRNOTAVAIL: 'no route to the receiver',
  ETIMEDOUT: 'no connection in time',
  UND_ERR_SOCKET: 'connection closed before the response was complete',
  UND_ERR_HEADERS_OVERFLOW: "the response's headers are too large",
  UND_ERR_INVALID_ARG: 'the request is not valid',
}

/**
 * A sentence for users about why an attempt failed. It never quotes the URL or a library's message, because they may
 * contain secrets.
 */
export function describeFailure(error: unknown): string {
  if (error instanceof OutboundFailure) return error.message
  if (error instanceof TargetRefusedError) return `the URL ${error.message}`
  if (error instanceof HostNotResolvedError) return 'the host cannot be resolved'
  // For some mistakes, undici's parser has no code.
  if (error instanceof errors.HTTPParserError) return 'the response is not HTTP'
  const code = errorCode(error) ?? ''
  return texts[code] ?? describeFamily(code)
}

/** True for the code of a TLS handshake that failed for another reason than the certificate. */
export function isHandshakeFailure(code: string): boolean {
  return code.startsWith('ERR_SSL_') || code === 'EPROTO'
}

/** True for the code of a certificate that was not accepted: expired, for another host, of an unknown authority. */
export function isCertificateFailure(code: string): boolean {
  return !isHandshakeFailure(code) && /CERT|^ERR_TLS_|^UNABLE_TO_|^INVALID_CA|^HOSTNAME_MISMATCH/.test(code)
}

function describeFamily(code: string): string {
  if (isHandshakeFailure(code)) return 'the TLS handshake failed'
  if (isCertificateFailure(code)) return `the TLS certificate is not valid (${code})`
  return code === '' ? 'the request failed' : `the request failed (${code})`
}
