import { useState } from 'preact/hooks'
import type { WebhookResource } from '@sluice/contracts/webhooks'
import { useApi, useRefresh } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { usePageParameter } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { SecretDialog } from '../../ui/form-dialog.tsx'
import { InView } from '../../ui/in-view.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/numbers.tsx'
import { EmptyState, ErrorPanel, PageTitle, Skeleton, SkeletonRows } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { texts } from './messages.ts'
import { Strip } from './strip.tsx'
import { WebhookDrawer } from './webhook-drawer.tsx'
import { NewWebhook } from './webhook-form.tsx'
import { stateOf, WebhookState } from './webhook-state.tsx'

const refreshMs = 10_000

/** The webhooks of the site, and how their last deliveries went. */
export default function Page() {
  const { site_id: siteId } = useSite()
  const query = { query: { site_id: siteId, limit: 1000 } }
  const webhooks = useApi('listWebhooks', query, { refetchMs: refreshMs, staleMs: 0 })
  const refresh = useRefresh()
  const [openId, setOpen] = usePageParameter('open')
  const [isNew, setNew] = useState(false)
  const [secret, setSecret] = useState<string>()
  const records = webhooks.data?.webhooks ?? []
  const open = records.find((each) => each.webhook_id === openId)
  const create = (
    <Button
      kind="primary"
      icon="plus"
      onClick={() => {
        setNew(true)
      }}
    >
      {texts.create}
    </Button>
  )
  return (
    <>
      <PageTitle
        title={messages.nav.webhooks}
        sentence={texts.sentence}
        actions={
          records.length === 0 ? undefined : (
            <>
              <MoreMenu
                source={listSource(messages.nav.webhooks, ['listWebhooks', query], records, [siteId, 'webhooks'])}
              />
              {create}
            </>
          )
        }
      />
      {webhooks.error === undefined ? null : <ErrorPanel error={webhooks.error} onRetry={webhooks.retry} />}
      {webhooks.isLoading ? <SkeletonRows rows={4} /> : null}
      {webhooks.data === undefined ? null : (
        <DataTable
          caption={messages.nav.webhooks}
          columns={columns}
          rows={records}
          rowKey={(each) => each.webhook_id}
          openKey={openId}
          onOpen={(each) => {
            setOpen(each.webhook_id)
          }}
          empty={<EmptyState icon="webhook" title={texts.none} why={texts.noneWhy} action={create} />}
        />
      )}
      {open === undefined ? null : (
        <WebhookDrawer
          key={open.webhook_id}
          of={open}
          onSecret={setSecret}
          onClose={() => {
            setOpen(undefined)
          }}
        />
      )}
      {isNew ? (
        <NewWebhook
          onClose={() => {
            setNew(false)
          }}
          onSecret={setSecret}
        />
      ) : null}
      {secret === undefined ? null : (
        <SecretDialog
          title={texts.reveal}
          secret={secret}
          what={texts.what}
          onSaved={() => {
            setSecret(undefined)
            void refresh('listWebhooks')
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
  if (deliveries.data === undefined) return <Skeleton width={198} height={14} />
  return <Strip deliveries={deliveries.data.deliveries} />
}

const columns: readonly Column<WebhookResource>[] = [
  { id: 'url', header: texts.columns.url, cell: (each) => <bdi>{each.url}</bdi>, sort: (each) => each.url },
  {
    id: 'events',
    header: texts.columns.events,
    cell: (each) => each.events.map((kind) => texts.kinds[kind]).join(', '),
  },
  {
    id: 'outcomes',
    header: texts.columns.outcomes,
    cell: (each) => (
      <InView placeholder={<Skeleton width={198} height={14} />}>{() => <Outcomes id={each.webhook_id} />}</InView>
    ),
  },
  {
    id: 'state',
    header: texts.columns.state,
    cell: (each) => <WebhookState of={each} />,
    sort: (each) => stateOf(each),
  },
]
