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
  apiKey: KeyResource
  onClose: () => void
  onReveal: (revealed: Revealed) => void
}

/** A key's record, and what can be done with it. */
export function KeyDrawer({ apiKey, onClose, onReveal }: KeyDrawerProps) {
  const [doing, setDoing] = useState<'edit' | 'rotate' | 'revoke'>()
  const isLive = ['active', 'expiring'].includes(stateOf(apiKey, serverNow()))
  const done = () => setDoing(undefined)
  const origins = apiKey.allowed_origins
  return (
    <>
      <Drawer
        title={apiKey.name}
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
              [texts.columns.key, <code>{apiKey.hint}</code>],
              [texts.columns.state, <KeyState apiKey={apiKey} />],
              [texts.columns.lastUsed, apiKey.last_used_at === null ? texts.never : <Ago ms={apiKey.last_used_at} />],
              [texts.columns.expiresAt, apiKey.expires_at === null ? texts.never : <At ms={apiKey.expires_at} />],
              [texts.environment, texts.environments[apiKey.environment]],
              [texts.scopes, <code>{apiKey.scopes.join(', ')}</code>],
              [texts.sites, apiKey.site_ids === null ? texts.allSites : <bdi>{apiKey.site_ids.join(', ')}</bdi>],
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
              [texts.limits, apiKey.rate_limits === null ? texts.defaultLimits : texts.ownLimits(apiKey.rate_limits)],
              [texts.columns.created, <At ms={apiKey.created_at} />],
              [texts.columns.id, <code>{apiKey.key_id}</code>],
            ]}
          />
          {isLive && apiKey.expires_at !== null ? <p class="muted small">{texts.stillUsed}</p> : null}
        </div>
      </Drawer>
      {doing === 'edit' ? <EditKey apiKey={apiKey} onClose={done} /> : null}
      {doing === 'rotate' ? <RotateKey apiKey={apiKey} onClose={done} onReveal={onReveal} /> : null}
      {doing === 'revoke' ? <RevokeKey apiKey={apiKey} onClose={done} /> : null}
    </>
  )
}

function EditKey({ apiKey, onClose }: Omit<KeyDrawerProps, 'onReveal'>) {
  const update = useOperationMutation('updateKey', ['listKeys', 'getKey', 'getSession'])
  // The list may be refetched while the form is open.
  const [opened] = useState(apiKey)
  return (
    <KeyForm
      apiKey={opened}
      onClose={onClose}
      isBusy={update.isBusy}
      error={update.error}
      onSubmit={async (body) => {
        const before = bodyOf(draftOf(opened), serverNow(), opened)
        await update.run({ params: { key_id: apiKey.key_id }, body: changedFields(body, before) })
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

function RotateKey({ apiKey, onClose, onReveal }: KeyDrawerProps) {
  // The list is refetched only once the new key is saved.
  const rotate = useOperationMutation('rotateKey')
  const [overlap, setOverlap] = useState<Overlap>('7d')
  const isOwn = apiKey.key_id === useSession().key_id
  return (
    <FormDialog
      title={texts.rotateTitle(apiKey.name)}
      submit={texts.rotate}
      onClose={onClose}
      isBusy={rotate.isBusy}
      error={rotate.error}
      onSubmit={async () => {
        const { key } = await rotate.run({ params: { key_id: apiKey.key_id }, body: { overlap } })
        onReveal({
          title: texts.rotatedReveal,
          text: texts.rotatedText(overlap === '0s' ? undefined : texts.overlaps[overlap], apiKey.expires_at !== null),
          key,
          scopes: apiKey.scopes,
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

function RevokeKey({ apiKey, onClose }: Omit<KeyDrawerProps, 'onReveal'>) {
  const revoke = useOperationMutation('revokeKey', ['listKeys', 'getKey'])
  const session = useSession()
  return (
    <ConfirmDialog
      title={texts.revokeTitle(apiKey.name)}
      submit={texts.revoke}
      onClose={onClose}
      isBusy={revoke.isBusy}
      error={revoke.error}
      onSubmit={async () => {
        await revoke.run({ params: { key_id: apiKey.key_id } })
        toast(texts.isRevoked(apiKey.name))
        onClose()
      }}
    >
      <p>{texts.revokeText}</p>
      {apiKey.key_id === session.key_id ? <p class="notice">{texts.revokeSelf}</p> : null}
    </ConfirmDialog>
  )
}
