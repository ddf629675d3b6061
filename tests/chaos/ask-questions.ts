import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { sendRequest } from './send-request.ts'

export interface Questions {
  /** Stops asking; resolves with the number of answers 200. */
  stop(): Promise<number>
}

/** Each client asks the next question after this pause. */
const pauseMs = 150
const dayMs = 86_400_000

/** The site exists before the run; its number of events does not change. */
const paths = [
  () => '/api/v1/stats?site_id=exported&metric=event_count',
  () => `/api/v1/stats?site_id=exported&metric=visitors&group_by=day&start_date=${Date.now() - 7 * dayMs}`,
  () => '/api/v1/sites',
  () => '/api/v1/exports?site_id=exported',
]

/**
 * Runs two clients with keep-alive and two with a new connection for each query. `onFailure` is called for each answer
 * but 200.
 */
export function askQuestions(options: {
  queryUrl: string
  key: string
  timeoutMs: number
  onFailure: (what: string) => void
}): Questions {
  const { queryUrl, key, timeoutMs, onFailure } = options
  const agents = [new Agent({ keepAlive: true, scheduling: 'fifo' }), new Agent({ keepAlive: false })]
  let isOver = false
  let answered = 0
  let next = 0

  async function ask(agent: Agent): Promise<void> {
    while (!isOver) {
      const path = paths[next++ % paths.length]?.() ?? ''
      try {
        const { status, text } = await sendRequest(`${queryUrl}${path}`, { key, agent, timeoutMs })
        if (status === 200) answered++
        else onFailure(`GET ${path} was answered ${status}: ${text.slice(0, 200)}`)
      } catch (error) {
        onFailure(`GET ${path} had no answer: ${String(error)}`)
      }
      await pause(pauseMs)
    }
  }

  const asking = Promise.all([...agents, ...agents].map(ask))
  return {
    stop: async () => {
      isOver = true
      await asking
      for (const agent of agents) agent.destroy()
      return answered
    },
  }
}
