import { useEffect } from 'preact/hooks'
import type { Environment } from '@sluice/contracts/scopes'
import { dayMs } from '@sluice/contracts/time-units'
import { useApi } from '../../api/hooks.ts'
import { formatBounds, formatDate } from '../../format/dates.ts'
import { messages } from '../../messages/en.ts'
import { ClearFilters } from '../../page-components/clear-filters.tsx'
import { moveClock } from '../../state/clock.ts'
import { useView, type ViewQueries } from '../../state/hooks.ts'
import { datesOf } from '../../state/range.ts'
import { useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { EmptyState, ErrorPanel } from '../../ui/states.tsx'
import { texts } from './messages.ts'

/** Days that are shown when the last event lies elsewhere, unless the site is younger. */
const shownDays = 28

/** No event in the range: why, and the way to those that there are. */
export function EmptyRange({ viewQueries }: { viewQueries: ViewQueries }) {
  const { filters, setView } = useView()
  const { zone, environment, bounds } = viewQueries
  const { first_event_at: firstAt, last_event_at: lastAt } = useSite()
  const other: Environment = environment === 'prod' ? 'dev' : 'prod'
  const elsewhere = useApi(
    'stats',
    environment === 'all' || filters.length > 0
      ? null
      : { query: { ...viewQueries.statsQuery('event_count'), environment: other } },
  )
  const isNewer = lastAt !== null && bounds.isOpen && lastAt >= bounds.endMs
  useEffect(() => {
    if (isNewer) moveClock()
  }, [isNewer])
  if (filters.length > 0) {
    return <EmptyState icon="list-filter" title={texts.noMatch} why={texts.noMatchWhy} action={<ClearFilters />} />
  }
  if ((elsewhere.data?.value ?? 0) > 0) {
    const name = messages.bar.environments[other]
    return (
      <EmptyState
        icon="radio"
        title={texts.emptyTitle}
        why={texts.elsewhere(name)}
        action={
          <Button
            kind="primary"
            onClick={() => {
              setView({ env: other })
            }}
          >
            {texts.show(name)}
          </Button>
        }
      />
    )
  }
  const failure = <ErrorPanel error={elsewhere.error} onRetry={elsewhere.retry} />
  if (lastAt === null || firstAt === null)
    return (
      <>
        {failure}
        <EmptyState icon="radio" title={texts.emptyTitle} />
      </>
    )
  const startMs = Math.max(firstAt, lastAt - (shownDays - 1) * dayMs)
  const shown = { startMs, endMs: lastAt + 1, isOpen: false }
  return (
    <>
      {failure}
      <EmptyState
        icon="radio"
        title={texts.emptyTitle}
        why={texts.lastEvent(formatDate(lastAt, zone))}
        action={
          <Button
            kind="primary"
            onClick={() => {
              setView({ range: datesOf(shown, zone), by: undefined })
            }}
          >
            {texts.show(formatBounds(shown, zone))}
          </Button>
        }
      />
    </>
  )
}
