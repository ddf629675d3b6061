import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { call } from '../api/client.ts'
import { useCachedQuery } from '../api/hooks.ts'
import { messages } from '../messages/en.ts'
import { useView } from '../state/hooks.ts'
import { useMay } from '../state/session.tsx'
import { Icon } from '../ui/icon.tsx'
import { useOverdue } from '../ui/use-overdue.ts'

const refetchMs = 15_000
/** With an older answer it is unknown whether storing is behind. */
const answerAgeMsMax = 3 * refetchMs
const firstFetchMs = 1_500
const freshLagMsMax = 30_000
const stalledMs = 5 * 60_000

/**
 * How far storing is behind the newest events, ms; undefined while unknown. Pages compare the lag of their own answers.
 */
export const lagMs = signal<number | undefined>(undefined)

/** How far behind accepted events are that are counted: a dot, a text in amber, or a banner. */
export function Freshness() {
  const { siteId } = useView()
  const mayRead = useMay('stats:read')
  const [isDue, setDue] = useState(false)
  useEffect(() => {
    // The page's own numbers come first.
    const timer = setTimeout(() => setDue(true), firstFetchMs)
    return () => clearTimeout(timer)
  }, [])
  const { data, error, answeredAt } = useCachedQuery(
    mayRead && isDue ? ['freshness', siteId] : null,
    // The last hour: old events, which are stored while the newest arrive, don't matter to it.
    (abort) => call('stats', { query: { site_id: siteId, metric: 'event_count', period: '1h' } }, abort),
    { refetchMs },
  )
  const isKnown = !useOverdue(answeredAt, answerAgeMsMax) && error === undefined
  // A `complete_until` of 0, before anything was stored, is a long lag too.
  const lag = data !== undefined && isKnown ? Math.max(0, data.timestamp - data.complete_until) : undefined
  useEffect(() => {
    lagMs.value = lag
  }, [lag])
  const isChecking = mayRead && data === undefined && error === undefined
  const { state, text } = isChecking ? checking : freshnessOf(lag)
  return (
    <div role="status" aria-label={messages.freshness.label} class={`freshness ${state}`} title={text}>
      {state === 'stalled' ? <Icon name="triangle-alert" /> : <span class="dot" />}
      <span class={state === 'quiet' || state === 'unknown' ? 'hidden-text' : undefined}>{text}</span>
    </div>
  )
}

/** Shown before the first answer. */
const checking = { state: 'unknown', text: messages.freshness.checking } as const

function freshnessOf(lag: number | undefined): { state: 'unknown' | 'quiet' | 'behind' | 'stalled'; text: string } {
  const { fresh, behind, stalled, unknown } = messages.freshness
  if (lag === undefined) return { state: 'unknown', text: unknown }
  if (lag <= freshLagMsMax) return { state: 'quiet', text: fresh }
  if (lag > stalledMs) return { state: 'stalled', text: stalled }
  return { state: 'behind', text: behind(Math.floor(lag / 1000)) }
}
