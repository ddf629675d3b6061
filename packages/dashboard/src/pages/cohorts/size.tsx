import { useEffect } from 'preact/hooks'
import type { Criteria } from '@sluice/contracts/conditions'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { fileNameOf } from '../../format/csv.ts'
import { formatIso } from '../../format/dates.ts'
import { useView, useViewQueries } from '../../state/hooks.ts'
import { announce } from '../../ui/announce.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, Skeleton } from '../../ui/states.tsx'
import { texts } from './messages.ts'

/** How often the numbers of a cohort are refetched: they need all events of its users. */
export const sizeRefreshMs = 5 * 60_000

export interface CohortSizeProps {
  criteria: Criteria
  name: string
  /** Has screen readers say each new size. */
  isSpoken?: boolean
}

/** How many users criteria describe: `358 users, 19.23%`. */
export function CohortSize({ criteria, name, isSpoken = false }: CohortSizeProps) {
  const { siteId } = useView()
  const { environment, zone } = useViewQueries()
  const input = { body: { site_id: siteId, criteria, environment } }
  const preview = useApi('previewCohort', input, {
    refetchMs: (answer) => (answer === undefined ? false : sizeRefreshMs),
  })
  const { data, error } = preview
  const source = useFromAnswer(preview, ({ size, share, complete_until }) => ({
    label: texts.sizeCaption(name),
    request: requestOf('previewCohort', input),
    rows: () => [{ size, share, complete_until: formatIso(complete_until, zone) }],
    fileName: fileNameOf([siteId, 'cohort', name], 'csv'),
    value: size,
  }))
  const spoken = data === undefined || preview.isPlaceholderData ? undefined : texts.spokenSize(data.size, data.share)
  useEffect(() => {
    if (isSpoken && spoken !== undefined) announce(spoken)
  }, [isSpoken, spoken])
  if (error !== undefined) return <ErrorPanel error={error} onRetry={preview.retry} />
  if (data === undefined) return <Skeleton width={120} />
  const { size, share } = data
  return (
    <span class={`cohort-size${preview.isPlaceholderData ? ' old' : ''}`}>
      <span>
        <strong>
          <Num value={size} name={name} />
        </strong>{' '}
        {texts.users(size)},{' '}
        <span class="muted">
          <Num kind="exact" value={share} />%
        </span>
      </span>
      <MoreMenu source={source} />
    </span>
  )
}
