import type { HandlerResult, PublicRequest } from '@sluice/http/route'

/**
 * GET /v1/projects/<key>/settings: what Segment's clients for apps ask for at their start. Without an answer, the one for
 * React Native drops all messages, and the one for Kotlin sends them to Segment (docs/decisions/035-segment-intake.md). A
 * request without a host is answered without `apiHost`; the clients keep the one that they are configured with.
 */
export function segmentSettings({ params, client: { host } }: PublicRequest): Promise<HandlerResult> {
  const apiHost = host === undefined || host === '' ? undefined : `${host}/v1`
  return Promise.resolve({
    status: 200,
    body: { integrations: { 'Segment.io': { apiKey: params.write_key, apiHost } } },
  })
}
