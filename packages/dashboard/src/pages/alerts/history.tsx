import type { AlertHistoryEntry, AlertResource } from '@sluice/contracts/alerts'
import { pageDefaults } from '@sluice/contracts/paging'
import { dayMs } from '@sluice/contracts/time-units'
import { webhookLimits } from '@sluice/contracts/webhooks'
import { serverNow } from '../../api/client.ts'
import { useApi } from '../../api/hooks.ts'
import { formatNumber, kindOf } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { useSite } from '../../state/session.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, Skeleton, Status } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { At } from '../../ui/time.tsx'
import { AlertChart } from './alert-chart.tsx'
import { draftOfRule, lineOf } from './draft.ts'
import { bandsOf } from './firings.ts'
import { texts } from './messages.ts'

const refreshMs = 15_000
/** The points of 30 days: one more each minute at most, because rules are evaluated each minute. */
const chartRefreshMs = 60_000

/**
 * What a rule did: the chart of the preview with the firings that really were, and each change with its notification.
 */
export function History({ rule }: { rule: AlertResource }) {
  const site = useSite()
  const { condition, for: forDuration, cooldown, no_data: noData, environment } = rule
  const input = { params: { rule_id: rule.rule_id }, query: { limit: pageDefaults.limitMax } }
  const history = useApi('listAlertHistory', input, { refetchMs: refreshMs, staleMs: 0 })
  const entries = history.data?.history ?? []
  const bands = bandsOf(entries, rule)
  const preview = useApi(
    'previewAlert',
    bands.length === 0
      ? null
      : { body: { site_id: rule.site_id, condition, for: forDuration, cooldown, no_data: noData, environment } },
    { refetchMs: chartRefreshMs },
  )
  const kind = kindOf(condition.metric)
  const columns: Column<AlertHistoryEntry>[] = [
    {
      id: 'timestamp',
      header: `${texts.historyColumns.at} (${site.timezone})`,
      cell: (entry) => <At ms={entry.timestamp} isBare />,
    },
    { id: 'to', header: texts.historyColumns.change, cell: (entry) => <ChangeOf entry={entry} /> },
    {
      id: 'value',
      header: texts.historyColumns.value,
      align: 'end',
      cell: (entry) => <Num value={entry.value} kind={kind} name={`${entry.timestamp} value`} />,
    },
    {
      id: 'notification',
      header: texts.historyColumns.notification,
      cell: (entry) => <NotificationOf entry={entry} />,
    },
  ]
  return (
    <section class="stack alert-history" aria-label={texts.history}>
      <div class="row">
        <h2 class="grow">{texts.history}</h2>
        {entries.length === 0 ? null : (
          <MoreMenu
            source={listSource(texts.history, ['listAlertHistory', input], entries, {
              fileParts: [rule.site_id, rule.rule_id, 'history'],
              zone: site.timezone,
            })}
          />
        )}
      </div>
      <ErrorPanel error={history.error} onRetry={history.retry} />
      {/* No higher than an empty history: a page that became shorter would move the form from under the pointer. */}
      {history.isLoading ? <Skeleton /> : null}
      <ErrorPanel error={preview.error} onRetry={preview.retry} />
      {preview.data === undefined || bands.length === 0 ? null : (
        <AlertChart
          label={`${texts.historyChart}: ${messages.metrics[condition.metric]}`}
          series={preview.data.series}
          bands={bands}
          kind={kind}
          zone={site.timezone}
          threshold={lineOf(draftOfRule(rule))}
        />
      )}
      {history.data === undefined ? null : (
        <DataTable
          caption={texts.history}
          columns={columns}
          rows={entries}
          rowKey={(entry) => `${entry.timestamp} ${entry.to} ${String(entry.test)}`}
          empty={<p class="muted">{texts.noHistory}</p>}
        />
      )}
      {history.data === undefined || history.data.total <= entries.length ? null : (
        <p class="muted">{texts.newest(formatNumber(entries.length), formatNumber(history.data.total))}</p>
      )}
    </section>
  )
}

function ChangeOf({ entry: { test, to } }: { entry: AlertHistoryEntry }) {
  if (test) return <Status kind="neutral">{texts.tests}</Status>
  return <Status kind={to === 'ok' ? 'good' : to === 'firing' ? 'danger' : 'warn'}>{texts.changes[to]}</Status>
}

const outcomes = { pending: 'busy', succeeded: 'good', failed: 'danger' } as const

function NotificationOf({ entry: { timestamp, notification } }: { entry: AlertHistoryEntry }) {
  if (notification === null) {
    const isKept = timestamp > serverNow() - webhookLimits.deliveryRetentionDays * dayMs
    return <span class="muted">{isKept ? texts.asWebhook : texts.noLongerKept}</span>
  }
  const { status, last_error: error } = notification
  return (
    <>
      <Status kind={outcomes[status]}>{texts.notifications[status]}</Status>
      {error === null ? null : (
        <span class="muted small">
          {' '}
          <bdi>{error}</bdi>
        </span>
      )}
    </>
  )
}
