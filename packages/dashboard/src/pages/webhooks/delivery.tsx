import type { AttemptResource } from '@sluice/contracts/webhooks'
import { useApi, useOperationMutation } from '../../api/hooks.ts'
import { formatDateSeconds } from '../../format/dates.ts'
import { useSite } from '../../state/session.tsx'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { ErrorPanel, SkeletonRows, Status } from '../../ui/states.tsx'
import { At, Until } from '../../ui/time.tsx'
import { texts } from './messages.ts'
import { DeliveryState } from './webhook-state.tsx'

const refreshMs = 2_000

interface DeliveryProps {
  webhookId: string
  deliveryId: string
  onBack: () => void
}

/** A delivery: its attempts on a time line, and what was sent. */
export function Delivery({ webhookId, deliveryId, onBack }: DeliveryProps) {
  const { timezone } = useSite()
  const params = { webhook_id: webhookId, delivery_id: deliveryId }
  const record = useApi('getDelivery', { params }, { refetchMs: refreshMs, staleMs: 0 })
  const replay = useOperationMutation('replayDelivery', ['getDelivery', 'listDeliveries'])
  const { data } = record
  return (
    <div class="stack">
      <div>
        <Button kind="quiet" icon="arrow-left" onClick={onBack}>
          {texts.back}
        </Button>
      </div>
      <ErrorPanel error={record.error} onRetry={record.retry} />
      {record.isLoading ? <SkeletonRows rows={6} /> : null}
      {data === undefined ? null : (
        <>
          <div class="row">
            <h3 class="grow">{texts.kind[data.event_type]}</h3>
            <DeliveryState status={data.status} />
            <Button
              icon="refresh-cw"
              isBusy={replay.isBusy}
              onClick={() => {
                replay.start({ params }, () => toast(texts.replayed))
              }}
            >
              {texts.replay}
            </Button>
            <MoreMenu
              source={listSource(texts.attempts, ['getDelivery', { params }], data.attempts, {
                fileParts: [deliveryId, 'attempts'],
                zone: timezone,
              })}
            />
          </div>
          <ErrorPanel error={replay.error} />
          <p class="muted small">
            <code>{data.delivery_id}</code> · <At ms={data.created_at} />
          </p>
          <section class="stack-small" aria-label={texts.attempts}>
            <h3>{texts.attempts}</h3>
            {data.attempts.length === 0 ? <p class="muted">{texts.noAttempts}</p> : null}
            <ol class="timeline">
              {data.attempts.map((attempt) => (
                <Attempt key={attempt.at} attempt={attempt} zone={timezone} />
              ))}
              {data.next_attempt_at === null ? null : (
                <li>
                  <Status kind="busy">
                    {texts.nextAttempt} <Until ms={data.next_attempt_at} />
                  </Status>
                </li>
              )}
            </ol>
          </section>
          <section class="stack-small" aria-label={texts.payload}>
            <h3>{texts.payload}</h3>
            <CodeBlock code={JSON.stringify(data.payload, null, 2)} label={texts.payload} what={texts.payload} />
          </section>
        </>
      )}
    </div>
  )
}

function Attempt({ attempt, zone }: { attempt: AttemptResource; zone: string }) {
  return (
    <li>
      <div class="row">
        <Status kind={attempt.error === null ? 'good' : 'danger'}>{texts.attempt(attempt.status)}</Status>
        <span class="muted small">
          {formatDateSeconds(attempt.at, zone)} · {texts.latency(attempt.latency_ms)}
        </span>
      </div>
      {attempt.error === null ? null : (
        <p class="small">
          <bdi>{attempt.error}</bdi>
        </p>
      )}
      {attempt.response === null || attempt.response === '' ? null : (
        <pre class="response" tabIndex={0} role="group" aria-label={texts.response}>
          <bdi>{attempt.response}</bdi>
        </pre>
      )}
    </li>
  )
}
