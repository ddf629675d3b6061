import { useId, useState } from 'preact/hooks'
import {
  type CreateWebhookBody,
  type DeliveryKind,
  deliveryKinds,
  type SummaryInterval,
  summaryIntervals,
  type WebhookResource,
} from '@sluice/contracts/webhooks'
import { changedFields } from '../../api/changed-fields.ts'
import type { ApiError } from '../../api/error.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useInvalidate, useOperationMutation } from '../../api/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { Checkbox, RadioGroup } from '../../ui/choice.tsx'
import { Problem, TextField } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { texts } from './messages.ts'

const chosenKinds = deliveryKinds.filter((kind) => kind !== 'webhook.test')
const formFields = ['url', 'events', 'secret']

type Body = Omit<CreateWebhookBody, 'site_id'>

/** Whether the webhook sends: neither its owner nor a failing receiver has switched it off. */
const isSending = ({ active, disabled_at: disabledAt }: WebhookResource) => active && disabledAt === null

interface FormProps {
  webhook?: WebhookResource
  onSubmit: (body: Body) => unknown
  onClose: () => void
  isBusy: boolean
  error: ApiError | undefined
}

function WebhookForm({ webhook, onSubmit, onClose, isBusy, error }: FormProps) {
  const [url, setUrl] = useState(webhook?.url ?? '')
  const [events, setEvents] = useState<readonly DeliveryKind[]>(webhook?.events ?? ['alert'])
  const [interval, setInterval] = useState<SummaryInterval>(webhook?.summary_interval ?? '1d')
  const [isActive, setActive] = useState(webhook === undefined || isSending(webhook))
  const [secret, setSecret] = useState('')
  const [isTried, setTried] = useState(false)
  const errors = fieldErrors(error, formFields)
  const isUrl = /^https?:\/\/./i.test(url.trim())
  const problemId = useId()
  const noEvents = isTried && events.length === 0 ? texts.missingEvents : errors.forField('events')
  const submit = () => {
    setTried(true)
    if (!isUrl || events.length === 0) return undefined
    return onSubmit({
      url: url.trim(),
      events: [...events],
      active: isActive,
      ...(events.includes('event_summary') ? { summary_interval: interval } : {}),
      ...(secret === '' ? {} : { secret }),
    })
  }
  return (
    <FormDialog
      title={webhook === undefined ? texts.create : texts.editTitle}
      submit={webhook === undefined ? texts.submit : texts.save}
      onSubmit={submit}
      onClose={onClose}
      isBusy={isBusy}
      error={errors.rest}
    >
      <TextField
        label={texts.url}
        hint={texts.urlHint}
        type="url"
        placeholder="https://"
        value={url}
        onInput={setUrl}
        autofocus
        autocomplete="off"
        spellcheck={false}
        error={isTried && !isUrl ? texts.missingUrl : errors.forField('url')}
      />
      <fieldset>
        <legend class="legend">{texts.events}</legend>
        {chosenKinds.map((kind, at) => (
          <Checkbox
            key={kind}
            label={texts.kinds[kind]}
            {...(texts.kindHints[kind] === '' ? {} : { hint: texts.kindHints[kind] })}
            checked={events.includes(kind)}
            problemId={at === 0 && noEvents !== undefined ? problemId : undefined}
            onChange={(isChosen) =>
              setEvents((now) => (isChosen ? [...now, kind] : now.filter((each) => each !== kind)))
            }
          />
        ))}
        <Problem id={problemId} text={noEvents} />
      </fieldset>
      {events.includes('event_summary') ? (
        <RadioGroup
          isInline
          legend={texts.interval}
          value={interval}
          options={summaryIntervals.map((value) => ({ value, label: texts.intervals[value] }))}
          onChange={setInterval}
        />
      ) : null}
      {webhook === undefined ? (
        <TextField
          label={texts.secret}
          isOptional
          hint={texts.secretHint}
          type="password"
          autocomplete="new-password"
          value={secret}
          onInput={setSecret}
          error={errors.forField('secret')}
        />
      ) : (
        <Checkbox label={texts.active} checked={isActive} onChange={setActive} />
      )}
    </FormDialog>
  )
}

/** The dialog for a new webhook. Its list is refetched once the secret is saved. */
export function NewWebhook({ onClose, onSecret }: { onClose: () => void; onSecret: (secret: string) => void }) {
  const { site_id: siteId } = useSite()
  const create = useOperationMutation('createWebhook')
  const invalidate = useInvalidate()
  return (
    <WebhookForm
      onClose={onClose}
      isBusy={create.isBusy}
      error={create.error}
      onSubmit={async (body) => {
        const { secret } = await create.run({ body: { ...body, site_id: siteId } })
        onClose()
        if (secret === undefined) await invalidate('listWebhooks')
        else onSecret(secret)
      }}
    />
  )
}

/** The dialog that changes a webhook. One that was switched off stays so until the box for its deliveries is ticked. */
export function EditWebhook({ webhook, onClose }: { webhook: WebhookResource; onClose: () => void }) {
  const update = useOperationMutation('updateWebhook', ['listWebhooks'])
  // The list is refetched while the form is open.
  const [opened] = useState(webhook)
  return (
    <WebhookForm
      webhook={opened}
      onClose={onClose}
      isBusy={update.isBusy}
      error={update.error}
      onSubmit={async (body) => {
        const { url, events, summary_interval } = opened
        const before = { url, events, active: isSending(opened), summary_interval }
        await update.run({ params: { webhook_id: webhook.webhook_id }, body: changedFields(body, before) })
        onClose()
      }}
    />
  )
}
