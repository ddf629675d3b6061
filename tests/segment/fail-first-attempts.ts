import type { CollectProxy, ProxiedRequest, Treatment } from '../support/collect-proxy.ts'

/** What happens to a request in place of its answer. */
const faults: readonly Treatment[] = [
  { kind: 'cut-before' },
  { kind: 'cut-after' },
  { kind: 'answer', status: 429, headers: { 'Retry-After': '1' } },
  { kind: 'answer', status: 503, headers: { 'Retry-After': '1' } },
  { kind: 'answer', status: 503, isForwarded: true },
]

export interface FailingRequests {
  /** How often each fault was injected. */
  injected: () => readonly number[]
  /** Messages that the service has answered with a 2xx, copies included. */
  delivered: () => number
  /** Answers that refuse a message for good: a busy machine may answer 503, after which clients repeat. */
  refusals: () => readonly string[]
}

/**
 * Lets requests of Segment's clients fail. The first attempt of every second request meets a fault, each kind in turn,
 * and so does half of the second attempts. Later attempts succeed, so that a client that retries ends soon.
 */
export function failFirstAttempts(proxy: CollectProxy): FailingRequests {
  const injected = faults.map(() => 0)
  let turns = 0
  proxy.treat = ({ headers }) => {
    if (Number(headers['x-retry-count'] ?? 0) > 1) return { kind: 'forward' }
    const turn = turns++
    const place = (turn / 2) % faults.length
    const fault = faults[place]
    if (fault === undefined) return { kind: 'forward' }
    injected[place] = (injected[place] ?? 0) + 1
    return fault
  }
  const answered = () =>
    proxy.requests.flatMap(({ method, body, answer }) => (method === 'POST' && answer ? [{ body, ...answer }] : []))
  return {
    injected: () => injected,
    delivered: () =>
      answered()
        .filter(({ status }) => status >= 200 && status < 300)
        .reduce((sum, { body }) => sum + messagesIn(body), 0),
    refusals: () =>
      answered()
        .filter(({ status }) => status < 200 || (status >= 300 && status < 500))
        .map(({ text }) => text),
  }
}

function messagesIn(body: ProxiedRequest['body']): number {
  const { batch } = JSON.parse(body.toString()) as { batch?: unknown[] }
  return batch?.length ?? 1
}
