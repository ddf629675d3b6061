import { useEffect, useState } from 'preact/hooks'
import type { AlertResource } from '@sluice/contracts/alerts'
import { changedFields } from '../../api/changed-fields.ts'
import { serverTimeAt } from '../../api/client.ts'
import { useApi, useInvalidate, useOperationMutation } from '../../api/hooks.ts'
import { useView } from '../../state/hooks.ts'
import { useSession, useSite } from '../../state/session.tsx'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { ConfirmDialog, SecretDialog } from '../../ui/form-dialog.tsx'
import { useLeaveGuard } from '../../ui/leave-guard.ts'
import { EmptyState, ErrorPanel, PageTitle, SkeletonRows } from '../../ui/states.tsx'
import { AlertState } from './alert-state.tsx'
import { bodyOf, changesOf, type Draft, draftOfRule, isChanged, newDraft } from './draft.ts'
import { History } from './history.tsx'
import { texts } from './messages.ts'
import { RuleEditor } from './rule-editor.tsx'
import { conditionText } from './rule-text.ts'

interface OnDone {
  /** Opens another rule, or the list. */
  onDone: (id: string | undefined) => void
}

interface OnShown {
  /** Called once the view has its title. */
  onShown: () => void
}

const Back = ({ onDone }: OnDone) => (
  <Button kind="quiet" icon="arrow-left" class="alert-back" onClick={() => onDone(undefined)}>
    {texts.back}
  </Button>
)

/** A new rule, on the metric and with the conditions that the address holds. */
export function NewRule({ onDone, onShown }: OnDone & OnShown) {
  useEffect(onShown, [])
  const { site_id: siteId } = useSite()
  const { environment } = useSession()
  const view = useView()
  const create = useOperationMutation('createAlert')
  const invalidate = useInvalidate()
  const [initial] = useState(() => newDraft(view.metric, view.filters))
  const [draft, setDraft] = useState(initial)
  const [made, setMade] = useState<{ id: string; secret: string }>()
  const hasUnsaved = create.isBusy || (isChanged(draft, initial) && made === undefined)
  const endGuard = useLeaveGuard(create.isBusy ? 'hold' : 'ask', hasUnsaved)
  const submit = async () => {
    const body = bodyOf(draft, siteId)
    if (body === undefined) return
    const { description, ...rest } = body
    const rule = await create.run({ body: description === '' ? rest : body })
    endGuard()
    const { secret } = rule.notification_config
    if (secret === undefined) {
      await invalidate('listAlerts')
      onDone(rule.rule_id)
    } else setMade({ id: rule.rule_id, secret })
  }
  return (
    <>
      <Back onDone={onDone} />
      <PageTitle title={texts.newTitle} />
      <RuleEditor
        draft={draft}
        environment={environment}
        set={(patch) => {
          setDraft((now) => ({ ...now, ...patch }))
        }}
        submit={texts.submit}
        onSubmit={submit}
        isBusy={create.isBusy}
        error={create.error}
      />
      {made === undefined ? null : (
        <NewSecret
          secret={made.secret}
          onSaved={() => {
            void invalidate('listAlerts')
            onDone(made.id)
          }}
        />
      )}
    </>
  )
}

const refreshMs = 15_000

/** A rule: its settings, what they would have done, and what it did. */
export function Rule({ id, onDone, onShown }: OnDone & OnShown & { id: string }) {
  const { site_id: siteId } = useSite()
  const rule = useApi('getAlert', { params: { rule_id: id } }, { refetchMs: refreshMs, staleMs: 0 })
  const isElsewhere = rule.data !== undefined && rule.data.site_id !== siteId
  const isGone = isElsewhere || rule.error?.status === 404
  const isShown = rule.data !== undefined || isGone
  useEffect(() => {
    if (isShown) onShown()
  }, [isShown])
  if (rule.data !== undefined && !isElsewhere)
    return (
      <>
        <ErrorPanel error={rule.error} onRetry={rule.retry} />
        <Loaded rule={rule.data} at={serverTimeAt(rule.answeredAt)} onDone={onDone} />
      </>
    )
  return (
    <>
      <Back onDone={onDone} />
      {rule.isLoading ? <SkeletonRows rows={8} /> : null}
      {isGone ? (
        <EmptyState isPage icon="bell" title={texts.gone} />
      ) : (
        <ErrorPanel error={rule.error} onRetry={rule.retry} />
      )}
    </>
  )
}

/** `at`: the server's time of the answer that has the rule, Unix ms. */
function Loaded({ rule, at, onDone }: OnDone & { rule: AlertResource; at: number }) {
  const params = { rule_id: rule.rule_id }
  const update = useOperationMutation('updateAlert')
  const invalidate = useInvalidate()
  const test = useOperationMutation('testAlert', ['listAlertHistory'])
  // The rule is refetched while it is edited.
  const [opened, setOpened] = useState(rule)
  const [draft, setDraft] = useState<Draft>(() => draftOfRule(rule))
  const [isRemoving, setRemoving] = useState(false)
  const [secret, setSecret] = useState<string>()
  const hasUnsaved = update.isBusy || isChanged(draft, draftOfRule(opened))
  const endGuard = useLeaveGuard(update.isBusy ? 'hold' : 'ask', hasUnsaved)
  const save = async () => {
    const body = changesOf(draft, opened)
    if (body === undefined) return
    const changed = await update.run({ params, body })
    setOpened(changed)
    // Text that was typed meanwhile stays.
    setDraft((now) => ({ ...draftOfRule(changed), ...changedFields(now, draft) }))
    // A rule that gets a webhook in place of another target gets a secret, which is shown only once.
    setSecret(changed.notification_config.secret)
    toast(texts.saved)
    void invalidate('getAlert', 'listAlerts')
  }
  return (
    <>
      <Back onDone={onDone} />
      <PageTitle
        title={<bdi>{rule.name}</bdi>}
        sentence={
          <>
            <AlertState rule={rule} at={at} /> · <bdi>{conditionText(rule.condition)}</bdi>
          </>
        }
        actions={
          <>
            <Button
              icon="send"
              isBusy={test.isBusy}
              onClick={() => {
                test.start({ params }, () => toast(texts.tested))
              }}
            >
              {texts.test}
            </Button>
            <Button kind="danger" onClick={() => setRemoving(true)}>
              {texts.remove}
            </Button>
          </>
        }
      />
      <ErrorPanel error={test.error} />
      {rule.last_error === null ? null : (
        <p class="notice">
          {texts.lastError}: <bdi>{rule.last_error}</bdi>
        </p>
      )}
      <RuleEditor
        draft={draft}
        environment={rule.environment}
        set={(patch) => {
          setDraft((now) => ({ ...now, ...patch }))
        }}
        submit={texts.save}
        onSubmit={save}
        isBusy={update.isBusy}
        error={update.error}
      />
      {secret === undefined ? null : <NewSecret secret={secret} onSaved={() => setSecret(undefined)} />}
      <History rule={rule} />
      {isRemoving ? (
        <Remove
          rule={rule}
          onClose={() => setRemoving(false)}
          onDone={(next) => {
            endGuard()
            onDone(next)
          }}
        />
      ) : null}
    </>
  )
}

/** Shows the secret of a rule's webhook, which no later answer has. */
function NewSecret({ secret, onSaved }: { secret: string; onSaved: () => void }) {
  return (
    <SecretDialog title={texts.reveal} secret={secret} what={texts.what} onSaved={onSaved}>
      {texts.revealText}
    </SecretDialog>
  )
}

function Remove({ rule, onClose, onDone }: OnDone & { rule: AlertResource; onClose: () => void }) {
  const remove = useOperationMutation('deleteAlert', ['listAlerts'])
  return (
    <ConfirmDialog
      title={texts.removeTitle(rule.name)}
      submit={texts.remove}
      isBusy={remove.isBusy}
      error={remove.error}
      onClose={onClose}
      onSubmit={async () => {
        await remove.run({ params: { rule_id: rule.rule_id } })
        toast(texts.removed)
        onDone(undefined)
      }}
    >
      <p>{texts.removeText}</p>
    </ConfirmDialog>
  )
}
