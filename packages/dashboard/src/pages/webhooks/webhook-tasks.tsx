import { useState } from 'preact/hooks'
import { dayMs } from '@sluice/contracts/time-units'
import type { WebhookResource } from '@sluice/contracts/webhooks'
import { serverNow } from '../../api/client.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useOperationMutation } from '../../api/hooks.ts'
import { localTime, parseLocalTime } from '../../format/dates.ts'
import { OverlapField } from '../../page-components/overlap-field.tsx'
import { useSite } from '../../state/session.tsx'
import { toast } from '../../ui/announce.tsx'
import { TextField } from '../../ui/field.tsx'
import { ConfirmDialog, FormDialog } from '../../ui/form-dialog.tsx'
import { texts } from './messages.ts'
import { urlOf } from './webhook-state.tsx'

interface TaskProps {
  webhook: WebhookResource
  onClose: () => void
}

/** Has everything since a time sent again that did not succeed: a time of the site's zone, as those of deliveries. */
export function Recover({ webhook, onClose }: TaskProps) {
  const recover = useOperationMutation('recoverDeliveries', ['listDeliveries'])
  const { timezone } = useSite()
  const [since, setSince] = useState(() => localTime(serverNow() - dayMs, timezone))
  const [isTried, setTried] = useState(false)
  const errors = fieldErrors(recover.error, ['since'])
  const ms = parseLocalTime(since, timezone)
  return (
    <FormDialog
      title={texts.recoverTitle}
      submit={texts.recover}
      isBusy={recover.isBusy}
      error={errors.rest}
      onClose={onClose}
      onSubmit={async () => {
        setTried(true)
        if (Number.isNaN(ms)) return
        const { recovered } = await recover.run({ params: { webhook_id: webhook.webhook_id }, body: { since: ms } })
        toast(texts.recovered(recovered))
        onClose()
      }}
    >
      <p>{texts.recoverText}</p>
      <TextField
        label={texts.since(timezone)}
        type="datetime-local"
        value={since}
        onInput={setSince}
        error={isTried && Number.isNaN(ms) ? texts.wrongSince : errors.forField('since')}
      />
    </FormDialog>
  )
}

type Overlap = keyof typeof texts.overlaps

/** Makes a new secret. The list is refetched once it is saved. */
export function RotateSecret({ webhook, onClose, onSecret }: TaskProps & { onSecret: (secret: string) => void }) {
  const rotate = useOperationMutation('rotateWebhookSecret')
  const [overlap, setOverlap] = useState<Overlap>('1d')
  return (
    <FormDialog
      title={texts.rotateTitle}
      submit={texts.rotate}
      isBusy={rotate.isBusy}
      error={rotate.error}
      onClose={onClose}
      onSubmit={async () => {
        const { secret } = await rotate.run({ params: { webhook_id: webhook.webhook_id }, body: { overlap } })
        onSecret(secret ?? '')
      }}
    >
      <p>{texts.rotateText}</p>
      <OverlapField label={texts.overlap} overlaps={texts.overlaps} value={overlap} onChange={setOverlap} />
    </FormDialog>
  )
}

export function RemoveWebhook({ webhook, onClose, onRemoved }: TaskProps & { onRemoved: () => void }) {
  const remove = useOperationMutation('deleteWebhook', ['listWebhooks'])
  return (
    <ConfirmDialog
      title={texts.removeTitle}
      submit={texts.remove}
      isBusy={remove.isBusy}
      error={remove.error}
      onClose={onClose}
      onSubmit={async () => {
        await remove.run({ params: { webhook_id: webhook.webhook_id } })
        toast(texts.removed)
        onRemoved()
      }}
    >
      <p>
        <bdi>{urlOf(webhook)}</bdi>
      </p>
      <p>{texts.removeText}</p>
    </ConfirmDialog>
  )
}
