import type { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { openClickHouse } from '@sluice/event-store/clickhouse/client'
import { waitUntil } from '@sluice/runtime/wait-until'
import { sendRequest } from './send-request.ts'

/** Events that were sent in one request, most likely at least one to each partition. */
export interface Probe {
  /** Unix ms of the 202, and of the time when all of them were stored. */
  acceptedAt: number
  storedAt: number
}

export interface FreshnessProbes {
  /** Waits until the events of all probes are stored; returns the probes. */
  stop(): Promise<Probe[]>
}

const site = 'fresh'
const eventsPerProbe = 16
const probeEveryMs = 500
const storedTimeoutMs = 120_000

/**
 * Sends probes continuously and queries ClickHouse until they are stored. `onFailure` is called for each refused probe.
 */
export function probeFreshness(options: {
  gatewayUrl: string
  clickHouseUrl: string
  key: string
  agent: Agent
  timeoutMs: number
  onFailure: (what: string) => void
}): FreshnessProbes {
  const { gatewayUrl, key, agent, timeoutMs, onFailure } = options
  const clickHouse = openClickHouse(options.clickHouseUrl)
  const waiting = new Map<string, number>()
  const probes: Probe[] = []
  let isOver = false
  let next = 0

  async function send(): Promise<void> {
    const name = `probe-${next++}`
    const events = Array.from({ length: eventsPerProbe }, (_, n) => ({
      site_id: site,
      event_type: name,
      event_id: `${name}-${n}`,
      timestamp: Date.now(),
    }))
    try {
      const { status } = await sendRequest(`${gatewayUrl}/collect/batch`, { key, body: { events }, agent, timeoutMs })
      if (status === 202) waiting.set(name, Date.now())
      else onFailure(`a probe was answered ${status}`)
    } catch (error) {
      onFailure(`a probe had no answer: ${String(error)}`)
    }
  }

  async function lookUp(): Promise<void> {
    if (waiting.size === 0) return
    const { rows } = await clickHouse.query<{ event_type: string }>(
      `SELECT event_type FROM events WHERE site_id = {site:String} AND event_type IN {names:Array(String)}
       GROUP BY event_type HAVING uniqExact(event_id) = {count:UInt32}`,
      { site, names: [...waiting.keys()], count: eventsPerProbe },
    )
    const storedAt = Date.now()
    for (const { event_type: name } of rows) {
      const acceptedAt = waiting.get(name)
      if (acceptedAt !== undefined && waiting.delete(name)) probes.push({ acceptedAt, storedAt })
    }
  }

  async function work(): Promise<void> {
    while (!isOver) {
      await Promise.all([send(), lookUp(), pause(probeEveryMs)])
    }
  }

  const working = work()
  // `stop` reports a rejection; until then it must not end this process.
  working.catch(() => undefined)
  return {
    stop: async () => {
      isOver = true
      try {
        await working
        await waitUntil(
          async () => {
            await lookUp()
            return waiting.size === 0
          },
          'the events of all probes are stored',
          storedTimeoutMs,
        )
        return probes
      } finally {
        await clickHouse.close()
      }
    },
  }
}
