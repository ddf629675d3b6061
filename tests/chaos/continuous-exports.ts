import type { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { waitUntil } from '@sluice/runtime/wait-until'
import { type Answer, sendRequest } from './send-request.ts'

export interface RunningExports {
  /** Whether an export is queued or being written. */
  isUnderWay(): boolean
  /** Waits for the running exports; resolves with the number of completed exports. */
  stop(): Promise<number>
}

const site = 'exported'
const events = 20_000
const eventsPerBatch = 500
const pollMs = 300
/** Maximum duration of an export, while every worker is restarted on a busy machine. */
const finishedTimeoutMs = 300_000

interface ExportOptions {
  gatewayUrl: string
  queryUrl: string
  key: string
  agent: Agent
  timeoutMs: number
}

/** Sends the events of the exported site, and waits until they are stored. */
export async function sendExportedEvents({ gatewayUrl, queryUrl, ...request }: ExportOptions): Promise<void> {
  for (let from = 0; from < events; from += eventsPerBatch) {
    const batch = Array.from({ length: eventsPerBatch }, (_, n) => ({
      site_id: site,
      event_type: 'exported',
      event_id: `exported-${from + n}`,
      timestamp: Date.now(),
      properties: { n: from + n },
    }))
    const { status, text } = await sendRequest(`${gatewayUrl}/collect/batch`, { ...request, body: { events: batch } })
    if (status !== 202) throw new Error(`the events to export were answered ${status}: ${text}`)
  }
  const isStored = async (): Promise<boolean> => {
    const { text } = await sendRequest(`${queryUrl}/api/v1/stats?site_id=${site}&metric=event_count`, request)
    return (JSON.parse(text) as { data?: { value: number } }).data?.value === events
  }
  await waitUntil(isStored, 'the events to export are stored')
}

/** Exports the site continuously, two exports at a time. `onFailure` is called for failed requests and exports. */
export function exportContinuously(options: ExportOptions & { onFailure: (what: string) => void }): RunningExports {
  const { queryUrl, onFailure, gatewayUrl: _, ...request } = options
  const path = `${queryUrl}/api/v1/exports`
  let isOver = false
  let underWay = 0
  let completed = 0

  async function call(url: string, wanted: number, body?: object): Promise<unknown> {
    let answer: Answer
    try {
      answer = await sendRequest(url, { ...request, ...(body && { body }) })
    } catch (error) {
      onFailure(`${url} had no answer: ${String(error)}`)
      return undefined
    }
    if (answer.status === wanted) return (JSON.parse(answer.text) as { data: unknown }).data
    onFailure(`${url} was answered ${answer.status}: ${answer.text.slice(0, 200)}`)
    return undefined
  }

  async function exportOnce(format: string): Promise<void> {
    const created = await call(path, 202, { site_id: site, type: 'events', format })
    if (created === undefined) return
    const { export_id: id } = created as { export_id: string }
    const deadline = Date.now() + finishedTimeoutMs
    for (;;) {
      await pause(pollMs)
      const found = (await call(`${path}/${id}`, 200)) as
        { status: string; rows: number; finished_at: number | null } | undefined
      if (found?.finished_at != null) {
        if (found.status === 'completed' && found.rows === events) completed++
        else onFailure(`${id} ended as ${found.status} with ${found.rows} rows instead of ${events}`)
        return
      }
      if (Date.now() > deadline) {
        onFailure(`${id} has not ended within ${finishedTimeoutMs} ms`)
        return
      }
    }
  }

  async function work(format: string): Promise<void> {
    while (!isOver) {
      underWay++
      await exportOnce(format)
      underWay--
      // Without a pause, refused exports would lead to a storm of requests.
      await pause(pollMs)
    }
  }

  const working = Promise.all([work('csv'), work('ndjson')])
  return {
    isUnderWay: () => underWay > 0,
    stop: async () => {
      isOver = true
      await working
      return completed
    },
  }
}
