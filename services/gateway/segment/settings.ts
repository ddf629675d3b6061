import type { HandlerResult, PublicRequest } from '@sluice/http/route'
import { invalidFormat } from '@sluice/runtime/errors'

/**
 * GET /v1/projects/<key>/settings: what Segment's clients for apps ask for at their start. Without an answer, the one for
 * React Native drops all messages, and the one for Kotlin sends them to Segment (docs/decisions/035-segment-intake.md).
 * Rejects with a 400 for a request that names no host: for the client for Kotlin, settings without `apiHost` name Segment's.
 */
export function segmentSettings({ params, client: { host } }: PublicRequest): Promise<HandlerResult> {
  if (!host) return Promise.reject(invalidFormat('the request names no host'))
  return Promise.resolve({
    status: 200,
    body: { integrations: { 'Segment.io': { apiKey: params.write_key, apiHost: `${host}/v1` } } },
  })
}
