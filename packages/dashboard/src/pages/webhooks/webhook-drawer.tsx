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
  of: WebhookResource
  onClose: () => void
  onSecret: (secret: string) => void
}

type Task = 'edit' | 'recover' | 'rotate' | 'remove'

/** A webhook: its deliveries, what can be done with it, and the code that receives it. */
export function WebhookDrawer({ of, onClose, onSecret }: WebhookDrawerProps) {
  const [deliveryId, setDelivery] = usePageParameter('delivery')
  const [task, setTask] = useState<Task>()
  const done = () => setTask(undefined)
  const close = () => {
    if (deliveryId !== undefined) setDelivery(undefined, true)
    onClose()
  }
  return (
    <>
      <Drawer title={urlOf(of)} onClose={close}>
        {deliveryId === undefined ? (
          <div class="stack">
            <Tasks of={of} onTask={setTask} />
            <Facts of={of} />
            <Deliveries id={of.webhook_id} siteId={of.site_id} onOpen={setDelivery} />
            <Receiver />
          </div>
        ) : (
          <Delivery webhookId={of.webhook_id} deliveryId={deliveryId} onBack={() => setDelivery(undefined)} />
        )}
      </Drawer>
      {task === 'edit' ? <EditWebhook of={of} onClose={done} /> : null}
      {task === 'recover' ? <Recover of={of} onClose={done} /> : null}
      {task === 'rotate' ? (
        <RotateSecret
          of={of}
          onClose={done}
          onSecret={(secret) => {
            done()
            onSecret(secret)
          }}
        />
      ) : null}
      {task === 'remove' ? <RemoveWebhook of={of} onClose={done} onRemoved={close} /> : null}
    </>
  )
}

function Tasks({ of, onTask }: { of: WebhookResource; onTask: (task: Task) => void }) {
  const params = { webhook_id: of.webhook_id }
  const test = useOperationMutation('testWebhook', ['listDeliveries'])
  const update = useOperationMutation('updateWebhook', ['listWebhooks'])
  const isOff = ['disabled', 'paused'].includes(stateOf(of))
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

function Facts({ of }: { of: WebhookResource }) {
  return (
    <Details
      items={[
        [texts.columns.state, <WebhookState of={of} />],
        of.disabled_at !== null && [texts.disabledAt, <At ms={of.disabled_at} />],
        of.disabled_reason !== null && [texts.reason, <bdi>{of.disabled_reason}</bdi>],
        of.failing_since !== null && [texts.failingSince, <Ago ms={of.failing_since} />],
        [texts.events, of.events.map((kind) => texts.kinds[kind]).join(', ')],
        of.events.includes('event_summary') && [texts.interval, texts.intervals[of.summary_interval]],
        of.previous_secret_expires_at !== null && [texts.secondSecret, <At ms={of.previous_secret_expires_at} />],
        [texts.created, <At ms={of.created_at} />],
        [texts.id, <code>{of.webhook_id}</code>],
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
