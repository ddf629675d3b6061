import { waitUntil } from '@sluice/runtime/wait-until'
import { checkAnswer } from './check-answer.ts'

/** A producer and analyst of a running Sluice. A call rejects when the OpenAPI document does not know its answer. */
export interface Client {
  /** POST /collect/batch; rejects when no answer comes within `timeoutMs`. */
  collectBatch(events: readonly object[]): Promise<{ status: number; body: unknown }>
  /** GET /api/v1/stats: `data` of the answer, with any status. */
  stats(parameters: Readonly<Record<string, string | number>>): Promise<{ status: number; data: StatsData }>
}

export interface StatsData {
  value: number
  breakdown: { timestamp: number; value: number; key?: string }[]
  complete_until: number
  timestamp: number
}

const timeoutMs = 30_000

export function client({ gatewayUrl, queryUrl, key }: { gatewayUrl: string; queryUrl: string; key: string }): Client {
  const headers = { Authorization: `Bearer ${key}` }
  return {
    collectBatch: async (events) => {
      const response = await fetch(`${gatewayUrl}/collect/batch`, {
        method: 'POST',
        headers: { ...headers, 'Content-Type': 'application/json' },
        body: JSON.stringify({ events }),
        signal: AbortSignal.timeout(timeoutMs),
      })
      const answer = { status: response.status, headers: response.headers, body: await response.json() }
      checkAnswer('POST', response.url, answer)
      return answer
    },
    stats: async (parameters) => {
      const search = new URLSearchParams(
        Object.entries(parameters).map(([name, value]): [string, string] => [name, String(value)]),
      )
      const response = await fetch(`${queryUrl}/api/v1/stats?${search.toString()}`, { headers })
      const body = (await response.json()) as { data: StatsData }
      checkAnswer('GET', response.url, { status: response.status, headers: response.headers, body })
      return { status: response.status, data: body.data }
    },
  }
}

/** Waits until a site's count over all time has reached `count`. Throws after 30 s. */
export async function waitForCount(sluice: Client, siteId: string, count: number): Promise<void> {
  await waitUntil(async () => {
    const { status, data } = await sluice.stats({
      site_id: siteId,
      metric: 'event_count',
      start_date: 31_536_000_000,
    })
    return status === 200 && data.value >= count
  }, `${count} events of ${siteId} are visible`)
}
