import { useEffect } from 'preact/hooks'
import type { PreviewAlertBody } from '@sluice/contracts/alerts'
import type { Environment } from '@sluice/contracts/scopes'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { fileNameOf } from '../../format/csv.ts'
import { formatIso } from '../../format/dates.ts'
import { kindOf } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { useSite } from '../../state/session.tsx'
import { announce } from '../../ui/announce.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { ErrorPanel, Skeleton } from '../../ui/states.tsx'
import { useDebouncedValue } from '../../ui/use-debounced-value.ts'
import { AlertChart } from './alert-chart.tsx'
import { type Draft, draftTrigger, lineOf } from './draft.ts'
import { isFiringAt } from './firings.ts'
import { texts } from './messages.ts'

/** The body of POST /alerts/preview; undefined while the draft is not complete. */
function previewBodyOf(draft: Draft, siteId: string, environment: Environment): PreviewAlertBody | undefined {
  const trigger = draftTrigger(draft)
  return trigger === undefined ? undefined : { site_id: siteId, ...trigger, environment }
}

interface PreviewProps {
  draft: Draft
  /** The environment whose events the rule counts. */
  environment: Environment
  onThreshold: (value: number) => void
}

/** The firings that a rule would have had in the last 30 days, requested 400 ms after the last edit. */
export function Preview({ draft, environment, onThreshold }: PreviewProps) {
  const site = useSite()
  const typed = previewBodyOf(draft, site.site_id, environment)
  const body = useDebouncedValue(typed, JSON.stringify(typed))
  const preview = useApi('previewAlert', body === undefined ? null : { body })
  const { data } = preview
  const isOld = preview.isPlaceholderData || JSON.stringify(body) !== JSON.stringify(typed)
  const sentence =
    data === undefined ? undefined : data.times_fired === 0 ? texts.wouldNever : texts.wouldFire(data.times_fired)
  useEffect(() => {
    if (sentence !== undefined && !isOld) announce(sentence)
  }, [sentence, isOld])
  const label = messages.metrics[draft.metric]
  const source = useFromAnswer(preview, ({ series, firings, times_fired }) =>
    body === undefined
      ? undefined
      : {
          label: texts.preview,
          request: requestOf('previewAlert', { body }),
          rows: () =>
            series.map(({ timestamp, value }, at) => ({
              timestamp: formatIso(timestamp, site.timezone),
              value,
              firing: isFiringAt(at, series, firings),
              times_fired,
            })),
          fileName: fileNameOf([site.site_id, 'alert-preview', body.condition.metric], 'csv'),
          value: times_fired,
        },
  )
  return (
    <section class="stack-small alert-preview" aria-label={texts.preview}>
      <div class="row">
        <h2 class="grow">{texts.preview}</h2>
        <MoreMenu source={source} />
      </div>
      <ErrorPanel error={preview.error} onRetry={preview.retry} />
      {body === undefined ? <p class="muted">{texts.incomplete}</p> : null}
      {preview.isLoading ? <Skeleton height={260} /> : null}
      {data === undefined || body === undefined ? null : (
        <div class={`stack-small${isOld ? ' old' : ''}${preview.isFetching ? ' refreshing' : ''}`}>
          <p class="alert-sentence">
            <data value={String(data.times_fired)} data-number={String(data.times_fired)} data-name="times_fired">
              {sentence}
            </data>
          </p>
          <AlertChart
            label={label}
            series={data.series}
            bands={data.firings}
            kind={kindOf(draft.metric)}
            zone={site.timezone}
            threshold={lineOf(draft)}
            onThreshold={onThreshold}
          />
        </div>
      )}
    </section>
  )
}
