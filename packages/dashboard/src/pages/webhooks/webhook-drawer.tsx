import { useState } from 'preact/hooks'
import type { WebhookResource } from '@sluice/contracts/webhooks'
import { useOperationMutation } from '../../api/hooks.ts'
import { usePageParameter } from '../../state/hooks.ts'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Details } from '../../ui/details.tsx'
import { Drawer } from '../../ui/dialog.tsx'
import { ErrorPanel } from '../../ui/states.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { Ago, At } from '../../ui/time.tsx'
import { Deliveries } from './deliveries.tsx'
import { Delivery } from './delivery.tsx'
import { texts } from './messages.ts'
import { receivers } from './receivers.ts'
import { EditWebhook } from './webhook-form.tsx'
import { stateOf, urlOf, WebhookState } from './webhook-state.tsx'
import { Recover, RemoveWebhook, RotateSecret } from './webhook-tasks.tsx'

interface WebhookDrawerProps {
  webhook: WebhookResource
  onClose: () => void
  onSecret: (secret: string) => void
}

type Task = 'edit' | 'recover' | 'rotate' | 'remove'

/** A webhook: its deliveries, what can be done with it, and the code that receives it. */
export function WebhookDrawer({ webhook, onClose, onSecret }: WebhookDrawerProps) {
  const [deliveryId, setDelivery] = usePageParameter('delivery')
  const [task, setTask] = useState<Task>()
  const done = () => setTask(undefined)
  const close = () => {
    if (deliveryId !== undefined) setDelivery(undefined, true)
    onClose()
  }
  return (
    <>
      <Drawer title={urlOf(webhook)} onClose={close}>
        {deliveryId === undefined ? (
          <div class="stack">
            <Tasks webhook={webhook} onTask={setTask} />
            <Facts webhook={webhook} />
            <Deliveries id={webhook.webhook_id} siteId={webhook.site_id} onOpen={setDelivery} />
            <Receiver />
          </div>
        ) : (
          <Delivery webhookId={webhook.webhook_id} deliveryId={deliveryId} onBack={() => setDelivery(undefined)} />
        )}
      </Drawer>
      {task === 'edit' ? <EditWebhook webhook={webhook} onClose={done} /> : null}
      {task === 'recover' ? <Recover webhook={webhook} onClose={done} /> : null}
      {task === 'rotate' ? (
        <RotateSecret
          webhook={webhook}
          onClose={done}
          onSecret={(secret) => {
            done()
            onSecret(secret)
          }}
        />
      ) : null}
      {task === 'remove' ? <RemoveWebhook webhook={webhook} onClose={done} onRemoved={close} /> : null}
    </>
  )
}

function Tasks({ webhook, onTask }: { webhook: WebhookResource; onTask: (task: Task) => void }) {
  const params = { webhook_id: webhook.webhook_id }
  const test = useOperationMutation('testWebhook', ['listDeliveries'])
  const update = useOperationMutation('updateWebhook', ['listWebhooks'])
  const isOff = ['disabled', 'paused'].includes(stateOf(webhook))
  const button = (task: Task, label: string) => (
    <Button key={task} onClick={() => onTask(task)}>
      {label}
    </Button>
  )
  return (
    <div class="stack-small">
      <div class="row">
        <Button
          kind="primary"
          icon="send"
          isBusy={test.isBusy}
          onClick={() => {
            test.start({ params }, () => toast(texts.tested))
          }}
        >
          {texts.test}
        </Button>
        {isOff ? (
          <Button
            icon="play"
            isBusy={update.isBusy}
            onClick={() => {
              update.start({ params, body: { active: true } })
            }}
          >
            {texts.enable}
          </Button>
        ) : null}
        {button('recover', texts.recover)}
        {button('rotate', texts.rotate)}
        {button('edit', texts.edit)}
        <Button kind="danger" icon="trash" isIconOnly title={texts.remove} onClick={() => onTask('remove')}>
          {texts.remove}
        </Button>
      </div>
      <ErrorPanel error={test.error} />
      <ErrorPanel error={update.error} />
    </div>
  )
}

function Facts({ webhook }: { webhook: WebhookResource }) {
  return (
    <Details
      items={[
        [texts.columns.state, <WebhookState webhook={webhook} />],
        webhook.disabled_at !== null && [texts.disabledAt, <At ms={webhook.disabled_at} />],
        webhook.disabled_reason !== null && [texts.reason, <bdi>{webhook.disabled_reason}</bdi>],
        webhook.failing_since !== null && [texts.failingSince, <Ago ms={webhook.failing_since} />],
        [texts.events, webhook.events.map((kind) => texts.kinds[kind]).join(', ')],
        webhook.events.includes('event_summary') && [texts.interval, texts.intervals[webhook.summary_interval]],
        webhook.previous_secret_expires_at !== null && [
          texts.secondSecret,
          <At ms={webhook.previous_secret_expires_at} />,
        ],
        [texts.created, <At ms={webhook.created_at} />],
        [texts.id, <code>{webhook.webhook_id}</code>],
      ]}
    />
  )
}

function Receiver() {
  return (
    <section class="stack-small" aria-label={texts.receiver}>
      <h3>{texts.receiver}</h3>
      <p class="muted small">{texts.receiverText}</p>
      <Tabs
        label={texts.receiver}
        tabs={Object.entries(receivers).map(([language, code]) => ({
          id: language,
          label: language,
          content: () => <CodeBlock key={language} code={code} label={language} />,
        }))}
      />
    </section>
  )
}
