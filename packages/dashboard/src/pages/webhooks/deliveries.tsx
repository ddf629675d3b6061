import { useState } from 'preact/hooks'
import type { DeliveryResource, DeliveryStatus } from '@sluice/contracts/webhooks'
import { useApi, useFromAnswer } from '../../api/hooks.ts'
import { formatNumber } from '../../format/numbers.ts'
import { useSite } from '../../state/session.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Pager } from '../../ui/pager.tsx'
import { Select } from '../../ui/select.tsx'
import { EmptyState, ErrorPanel, SkeletonRows } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import { texts } from './messages.ts'
import { Strip } from './strip.tsx'
import { DeliveryState } from './webhook-state.tsx'

const limit = 50
const refreshMs = 3_000

interface DeliveriesProps {
  id: string
  siteId: string
  onOpen: (deliveryId: string) => void
}

/** The deliveries of a webhook, newest first. */
export function Deliveries({ id, siteId, onOpen }: DeliveriesProps) {
  const [status, setStatus] = useState<DeliveryStatus | 'any'>('any')
  const [offset, setOffset] = useState(0)
  const { timezone: zone } = useSite()
  const input = {
    params: { webhook_id: id },
    query: { limit, offset, ...(status === 'any' ? {} : { status }) },
  }
  const deliveries = useApi('listDeliveries', input, { refetchMs: refreshMs, staleMs: 0 })
  const source = useFromAnswer(deliveries, (answered) =>
    listSource(texts.deliveries, ['listDeliveries', input], answered.deliveries, {
      fileParts: [siteId, id, 'deliveries'],
      zone,
    }),
  )
  const records = deliveries.data?.deliveries ?? []
  return (
    <section class="stack-small" aria-label={texts.deliveries}>
      <div class="row">
        <h3 class="grow">{texts.deliveries}</h3>
        <Select
          class="quiet-input"
          name={texts.status}
          value={status}
          options={(['any', 'pending', 'succeeded', 'failed'] as const).map((value) => ({
            value,
            label: texts.statuses[value],
          }))}
          onChange={(value) => {
            setStatus(value)
            setOffset(0)
          }}
        />
        <MoreMenu source={source} />
      </div>
      {status === 'any' && offset === 0 && records.length > 0 ? <Strip deliveries={records} /> : null}
      <ErrorPanel error={deliveries.error} onRetry={deliveries.retry} />
      {deliveries.isLoading ? <SkeletonRows rows={4} /> : null}
      {deliveries.data === undefined ? null : (
        <div class={deliveries.isPlaceholderData ? 'old' : undefined}>
          <DataTable
            caption={texts.deliveries}
            columns={columns}
            rows={records}
            rowKey={(each) => each.delivery_id}
            onOpen={(each) => onOpen(each.delivery_id)}
            empty={
              deliveries.data.total > 0 ? (
                <SkeletonRows rows={4} />
              ) : status === 'any' ? (
                <EmptyState title={texts.noDeliveries} why={texts.noDeliveriesWhy} />
              ) : (
                <EmptyState title={texts.noSuchDeliveries} />
              )
            }
          />
          <Pager offset={offset} limit={limit} total={deliveries.data.total} onChange={setOffset} />
        </div>
      )}
    </section>
  )
}

const columns: readonly Column<DeliveryResource>[] = [
  { id: 'event_type', header: texts.deliveryColumns.event, cell: (each) => texts.kind[each.event_type] },
  { id: 'created_at', header: texts.deliveryColumns.at, cell: (each) => <Ago ms={each.created_at} /> },
  { id: 'status', header: texts.deliveryColumns.status, cell: (each) => <DeliveryState status={each.status} /> },
  {
    id: 'attempts',
    header: texts.deliveryColumns.attempts,
    align: 'end',
    cell: (each) => formatNumber(each.attempts.length),
  },
]
