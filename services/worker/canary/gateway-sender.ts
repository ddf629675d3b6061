import { openOutbound } from '@sluice/outbound/open-outbound'

/** The answer of a gateway to an event. */
export interface SendResult {
  /** Whether it answered 202: from then on the event must not be lost. */
  isAcknowledged: boolean
  /** The status; null without an answer. */
  status: number | null
  /** Why it was not acknowledged, without the key; null when it was. */
  error: string | null
}

/** Sends an event in one request, without retries. Rejects only when `signal` is aborted. */
export type Sender = (event: object, signal: AbortSignal) => Promise<SendResult>

const timeoutMs = 5_000
const errorLengthMax = 200
/** The gateway may have any address, because the operator configures it. */
const everywhere = ['0.0.0.0/0', '::/0']

/**
 * Creates a sender to the gateway at `origin`. Each event uses a new connection, so that it also tests DNS and the load
 * balancer. The proxy for webhooks is not used.
 */
export function gatewaySender(origin: string, apiKey: string): Sender {
  const outbound = openOutbound({ allowedNetworks: everywhere, timeoutMs })
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  return async (event, signal) => {
    const body = Buffer.from(JSON.stringify(event))
    const { status, error, response } = await outbound.post({ url: `${origin}/collect`, headers, body }, signal)
    if (status === 202) return { isAcknowledged: true, status, error: null }
    const reason = errorIn(response) ?? error ?? 'the answer is not that of a gateway'
    return { isAcknowledged: false, status, error: reason.replaceAll(apiKey, '[key]').slice(0, errorLengthMax) }
  }
}

/** The message in an error response of Sluice. */
function errorIn(response: string | null): string | undefined {
  try {
    const body: unknown = JSON.parse(response ?? '')
    if (typeof body === 'object' && body !== null && 'error' in body && typeof body.error === 'string')
      return body.error
  } catch {
    // The answer is not that of a gateway.
  }
  return undefined
}
