import { useState } from 'preact/hooks'
import { dayMs } from '@sluice/contracts/time-units'
import { serverNow } from '../../api/client.ts'
import { useOperationMutation } from '../../api/hooks.ts'
import { useView, useViewQueries, type ViewQueries } from '../../state/hooks.ts'
import { customOf } from '../../state/range.ts'
import { useMay } from '../../state/session.tsx'
import type { ViewChanges } from '../../state/view.ts'
import { Button } from '../../ui/button.tsx'
import { copyText } from '../../ui/copy.tsx'
import { SelectField } from '../../ui/field.tsx'
import { FormDialog, SecretDialog } from '../../ui/form-dialog.tsx'
import { Action, Popover } from '../../ui/popover.tsx'
import { texts } from './messages.ts'

type SharedQueries = Pick<ViewQueries, 'bounds' | 'compared' | 'zone' | 'environment'>

/** Links to the view: one that moves on with the days, one that stays, and one for guests. */
export function Share({ bounds, compared, zone, environment }: SharedQueries) {
  const { hrefOf, range } = useView()
  const mayMakeKeys = useMay('admin')
  const [isGuest, setGuest] = useState(false)
  // Without it the view has the environment of the reader's own key.
  const moving: ViewChanges = { env: environment }
  // Chosen days stay by themselves, and so does what they are compared with.
  const fixed: ViewChanges =
    typeof range === 'object'
      ? { ...moving, zone }
      : {
          ...moving,
          zone,
          range: customOf(bounds, zone),
          compare: compared === undefined ? 'none' : customOf(compared, zone),
        }
  const copies = (href: string, close: () => void) => () => {
    close()
    void copyText(location.origin + href, texts.link)
  }
  return (
    <>
      <Popover
        kind="actions"
        label={texts.share}
        button={(attributes) => (
          <Button icon="external-link" {...attributes}>
            {texts.share}
          </Button>
        )}
      >
        {(close) => (
          <>
            <Action onSelect={copies(hrefOf(moving), close)} detail={texts.movingHint}>
              {texts.movingLink}
            </Action>
            <Action onSelect={copies(hrefOf(fixed), close)} detail={texts.fixedHint}>
              {texts.fixedLink}
            </Action>
            {mayMakeKeys ? (
              <Action
                onSelect={() => {
                  close()
                  setGuest(true)
                }}
              >
                {texts.guestLink}
              </Action>
            ) : null}
          </>
        )}
      </Popover>
      {isGuest ? (
        <GuestDialog
          onClose={() => {
            setGuest(false)
          }}
        />
      ) : null}
    </>
  )
}

/** Every guest of the link reads with the same key, and a page sends several queries. */
const guestLimits = { queries_per_minute: 10_000 }

const choices = ['1', '7', '30', '90'] as const

/** Makes a key with `stats:read` for this site alone until it expires, and a link that signs in with it. */
function GuestDialog({ onClose }: { onClose: () => void }) {
  const { siteId, hrefOf } = useView()
  const { environment } = useViewQueries()
  const [days, setDays] = useState<(typeof choices)[number]>('7')
  const [link, setLink] = useState<string>()
  const make = useOperationMutation('createKey', ['listKeys'])
  const submit = async () => {
    const { key } = await make.run({
      body: {
        name: texts.guestKey(siteId),
        scopes: ['stats:read'],
        environment: environment === 'dev' ? 'dev' : 'prod',
        site_ids: [siteId],
        rate_limits: guestLimits,
        expires_at: Math.floor(serverNow()) + Number(days) * dayMs,
      },
    })
    setLink(`${location.origin}${hrefOf({})}#key=${key}`)
  }
  if (link !== undefined) {
    return (
      <SecretDialog title={texts.guestTitle} secret={link} what={texts.link} onSaved={onClose}>
        <bdi>{texts.guestWhy(siteId)}</bdi> {texts.guestOnce}
      </SecretDialog>
    )
  }
  return (
    <FormDialog
      title={texts.guestTitle}
      submit={texts.guestMake}
      onSubmit={submit}
      isBusy={make.isBusy}
      error={make.error}
      // The key works from the request on: its link must be seen.
      isDismissible={!make.isBusy}
      onClose={() => {
        if (!make.isBusy) onClose()
      }}
    >
      <p>
        <bdi>{texts.guestWhy(siteId)}</bdi>
      </p>
      <SelectField
        label={texts.guestDays}
        value={days}
        options={choices.map((value) => ({ value, label: texts.days(Number(value)) }))}
        onChange={setDays}
      />
    </FormDialog>
  )
}
