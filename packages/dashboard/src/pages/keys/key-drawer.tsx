import { useState } from 'preact/hooks'
import type { KeyResource } from '@sluice/contracts/keys'
import type { Scope } from '@sluice/contracts/scopes'
import { changedFields } from '../../api/changed-fields.ts'
import { serverNow } from '../../api/client.ts'
import { useOperationMutation } from '../../api/hooks.ts'
import { OverlapField } from '../../page-components/overlap-field.tsx'
import { useSession } from '../../state/session.tsx'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { Details } from '../../ui/details.tsx'
import { Drawer } from '../../ui/dialog.tsx'
import { ConfirmDialog, FormDialog } from '../../ui/form-dialog.tsx'
import { Ago, At } from '../../ui/time.tsx'
import { bodyOf, draftOf } from './key-draft.ts'
import { KeyForm } from './key-form.tsx'
import { KeyState } from './key-state.tsx'
import { texts } from './messages.ts'
import { stateOf } from './presets.ts'

/** A new key with the text that stands above it. */
export interface Revealed {
  title: string
  text: string
  key: string
  scopes: readonly Scope[]
}

interface KeyDrawerProps {
  of: KeyResource
  onClose: () => void
  onReveal: (revealed: Revealed) => void
}

/** A key's record, and what can be done with it. */
export function KeyDrawer({ of, onClose, onReveal }: KeyDrawerProps) {
  const [doing, setDoing] = useState<'edit' | 'rotate' | 'revoke'>()
  const isLive = ['active', 'expiring'].includes(stateOf(of, serverNow()))
  const done = () => setDoing(undefined)
  const origins = of.allowed_origins
  return (
    <>
      <Drawer
        title={of.name}
        onClose={onClose}
        actions={
          isLive ? (
            <>
              <Button onClick={() => setDoing('edit')}>{texts.edit}</Button>
              <Button icon="refresh-cw" onClick={() => setDoing('rotate')}>
                {texts.rotate}
              </Button>
              <Button kind="danger" onClick={() => setDoing('revoke')}>
                {texts.revoke}
              </Button>
            </>
          ) : undefined
        }
      >
        <div class="stack">
          <Details
            items={[
              [texts.columns.key, <code>{of.hint}</code>],
              [texts.columns.state, <KeyState of={of} />],
              [texts.columns.lastUsed, of.last_used_at === null ? texts.never : <Ago ms={of.last_used_at} />],
              [texts.columns.expiresAt, of.expires_at === null ? texts.never : <At ms={of.expires_at} />],
              [texts.environment, texts.environments[of.environment]],
              [texts.scopes, <code>{of.scopes.join(', ')}</code>],
              [texts.sites, of.site_ids === null ? texts.allSites : <bdi>{of.site_ids.join(', ')}</bdi>],
              [
                texts.origins,
                origins === null ? (
                  texts.anyOrigin
                ) : origins.length === 0 ? (
                  texts.noOrigin
                ) : (
                  <bdi>{origins.join(', ')}</bdi>
                ),
              ],
              [texts.limits, of.rate_limits === null ? texts.defaultLimits : texts.ownLimits(of.rate_limits)],
              [texts.columns.created, <At ms={of.created_at} />],
              [texts.columns.id, <code>{of.key_id}</code>],
            ]}
          />
          {isLive && of.expires_at !== null ? <p class="muted small">{texts.stillUsed}</p> : null}
        </div>
      </Drawer>
      {doing === 'edit' ? <EditKey of={of} onClose={done} /> : null}
      {doing === 'rotate' ? <RotateKey of={of} onClose={done} onReveal={onReveal} /> : null}
      {doing === 'revoke' ? <RevokeKey of={of} onClose={done} /> : null}
    </>
  )
}

function EditKey({ of, onClose }: Omit<KeyDrawerProps, 'onReveal'>) {
  const update = useOperationMutation('updateKey', ['listKeys', 'getKey', 'getSession'])
  // The list may be refetched while the form is open.
  const [opened] = useState(of)
  return (
    <KeyForm
      of={opened}
      onClose={onClose}
      isBusy={update.isBusy}
      error={update.error}
      onSubmit={async (body) => {
        const before = bodyOf(draftOf(opened), serverNow(), opened)
        await update.run({ params: { key_id: of.key_id }, body: changedFields(body, before) })
        onClose()
      }}
    />
  )
}

type Overlap = keyof typeof texts.overlaps

/** For the key of the session itself, which must not end before the new key is saved. */
const ownOverlaps: Readonly<Partial<Record<Overlap, string>>> = Object.fromEntries(
  Object.entries(texts.overlaps).filter(([overlap]) => overlap !== '0s'),
)

function RotateKey({ of, onClose, onReveal }: KeyDrawerProps) {
  // The list is refetched only once the new key is saved.
  const rotate = useOperationMutation('rotateKey')
  const [overlap, setOverlap] = useState<Overlap>('7d')
  const isOwn = of.key_id === useSession().key_id
  return (
    <FormDialog
      title={texts.rotateTitle(of.name)}
      submit={texts.rotate}
      onClose={onClose}
      isBusy={rotate.isBusy}
      error={rotate.error}
      onSubmit={async () => {
        const { key } = await rotate.run({ params: { key_id: of.key_id }, body: { overlap } })
        onReveal({
          title: texts.rotatedReveal,
          text: texts.rotatedText(overlap === '0s' ? undefined : texts.overlaps[overlap], of.expires_at !== null),
          key,
          scopes: of.scopes,
        })
      }}
    >
      <p>{texts.rotateText}</p>
      {isOwn ? <p class="notice">{texts.rotateSelf}</p> : null}
      <OverlapField<Overlap>
        label={texts.overlap}
        overlaps={isOwn ? ownOverlaps : texts.overlaps}
        value={overlap}
        onChange={setOverlap}
      />
    </FormDialog>
  )
}

function RevokeKey({ of, onClose }: Omit<KeyDrawerProps, 'onReveal'>) {
  const revoke = useOperationMutation('revokeKey', ['listKeys', 'getKey'])
  const session = useSession()
  return (
    <ConfirmDialog
      title={texts.revokeTitle(of.name)}
      submit={texts.revoke}
      onClose={onClose}
      isBusy={revoke.isBusy}
      error={revoke.error}
      onSubmit={async () => {
        await revoke.run({ params: { key_id: of.key_id } })
        toast(texts.isRevoked(of.name))
        onClose()
      }}
    >
      <p>{texts.revokeText}</p>
      {of.key_id === session.key_id ? <p class="notice">{texts.revokeSelf}</p> : null}
    </ConfirmDialog>
  )
}
