import { useState } from 'preact/hooks'
import { pageDefaults } from '@sluice/contracts/paging'
import type { WebhookResource } from '@sluice/contracts/webhooks'
import { useApi, useInvalidate, useIsCurrent } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { ResourceList } from '../../page-components/resource-list.tsx'
import { UnknownRecord } from '../../page-components/unknown-record.tsx'
import { usePageParameter } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { SecretDialog } from '../../ui/form-dialog.tsx'
import { InView } from '../../ui/in-view.tsx'
import { Unknown } from '../../ui/numbers.tsx'
import { Skeleton } from '../../ui/states.tsx'
import type { Column } from '../../ui/table.tsx'
import { texts } from './messages.ts'
import { Strip } from './strip.tsx'
import { WebhookDrawer } from './webhook-drawer.tsx'
import { NewWebhook } from './webhook-form.tsx'
import { stateOf, urlOf, WebhookState } from './webhook-state.tsx'

const refreshMs = 10_000

/** The webhooks of the site, and how their last deliveries went. */
export default function Page() {
  const { site_id: siteId } = useSite()
  const query = { query: { site_id: siteId, limit: pageDefaults.limitMax } }
  const webhooks = useApi('listWebhooks', query, { refetchMs: refreshMs, staleMs: 0 })
  const isCurrent = useIsCurrent(webhooks)
  const invalidate = useInvalidate()
  const [openId, setOpen] = usePageParameter('open')
  const [isNew, setNew] = useState(false)
  const [secret, setSecret] = useState<string>()
  const open = webhooks.data?.webhooks.find((each) => each.webhook_id === openId)
  return (
    <>
      <ResourceList
        title={messages.nav.webhooks}
        sentence={texts.sentence}
        request={['listWebhooks', query]}
        answer={webhooks}
        records={webhooks.data?.webhooks}
        fileParts={[siteId, 'webhooks']}
        create={{
          label: texts.create,
          icon: 'plus',
          onClick: () => setNew(true),
        }}
        empty={{ icon: 'webhook', title: texts.none, why: texts.noneWhy }}
        columns={columns}
        rowKey={(each) => each.webhook_id}
        openKey={openId}
        onOpen={setOpen}
      />
      {open !== undefined ? (
        <WebhookDrawer key={open.webhook_id} webhook={open} onSecret={setSecret} onClose={() => setOpen(undefined)} />
      ) : openId === undefined || webhooks.data === undefined || !isCurrent ? null : (
        <UnknownRecord id={openId} />
      )}
      {isNew ? <NewWebhook onClose={() => setNew(false)} onSecret={setSecret} /> : null}
      {secret === undefined ? null : (
        <SecretDialog
          title={texts.reveal}
          secret={secret}
          what={texts.what}
          onSaved={() => {
            setSecret(undefined)
            void invalidate('listWebhooks')
          }}
        >
          {texts.revealText}
        </SecretDialog>
      )}
    </>
  )
}

const stripSize = 50

function Outcomes({ id }: { id: string }) {
  const input = { params: { webhook_id: id }, query: { limit: stripSize } }
  const deliveries = useApi('listDeliveries', input, { refetchMs: refreshMs, staleMs: 0 })
  const { data, error } = deliveries
  if (data === undefined)
    return error === undefined ? <Skeleton width={198} height={14} /> : <Unknown why={error.message} />
  return <Strip deliveries={data.deliveries} />
}

const columns: readonly Column<WebhookResource>[] = [
  { id: 'url', header: texts.columns.url, cell: (each) => <bdi>{urlOf(each)}</bdi>, sort: (each) => each.url },
  {
    id: 'events',
    header: texts.columns.events,
    cell: (each) => each.events.map((kind) => texts.kinds[kind]).join(', '),
  },
  {
    id: 'outcomes',
    header: texts.columns.outcomes,
    cell: (each) => (
      <InView class="outcomes" placeholder={<Skeleton width={198} height={14} />}>
        {() => <Outcomes id={each.webhook_id} />}
      </InView>
    ),
  },
  {
    id: 'state',
    header: texts.columns.state,
    cell: (each) => <WebhookState webhook={each} />,
    sort: (each) => stateOf(each),
  },
]
