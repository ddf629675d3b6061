import type { ServerResponse } from 'node:http'
import type { RequestContext } from './request-checks.ts'
import { serverLimits } from './server-limits.ts'

type ResponseContext = Pick<RequestContext, 'admission' | 'credential'>

/**
 * Reserves the memory of a response until it is written out or the client has disconnected. A small response counts
 * with its request. Throws the 503 if it does not fit.
 */
export function reserveResponse(context: ResponseContext, response: ServerResponse, text: string): void {
  const bytes = Buffer.byteLength(text)
  if (bytes <= serverLimits.requestBytes) return
  // A key may hold half of the memory. Reserving no more than that lets even the largest response fit while no other
  // one is held.
  reserveUntilClosed(context, response, Math.min(bytes, serverLimits.responseBytesMax / 2))
}

/**
 * Reserves the memory of a download until it ends or the client has disconnected. Throws the 503 if it does not fit.
 */
export function reserveDownload(context: ResponseContext, response: ServerResponse): void {
  reserveUntilClosed(context, response, serverLimits.downloadBytes)
}

function reserveUntilClosed(
  { admission: { responses }, credential }: ResponseContext,
  response: ServerResponse,
  reservedBytes: number,
): void {
  if (response.closed) return
  const quota = responses.quotaOf(credential?.keyId)
  responses.reserve(quota, reservedBytes)
  response.once('close', () => responses.release(quota, reservedBytes))
}

/** Releases the memory of a request: that of its body at once, the rest when its response is written out. */
export function releaseRequest(
  {
    admission,
    quota,
    network,
    reservedBytes,
    reservedBodyBytes,
  }: Pick<RequestContext, 'admission' | 'quota' | 'network' | 'reservedBytes' | 'reservedBodyBytes'>,
  response: ServerResponse,
): void {
  if (!quota) return
  // Usually the kernel already holds the whole response.
  if (response.writableLength === 0 || response.closed) {
    admission.release(quota, reservedBytes + reservedBodyBytes, network)
    return
  }
  admission.release(quota, reservedBodyBytes, network)
  response.once('close', () => admission.release(quota, reservedBytes, network))
}
