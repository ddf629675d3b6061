import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { useOperationMutation } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { toCurl } from '../../format/curl.ts'
import { messages } from '../../messages/en.ts'
import { useSite } from '../../state/session.tsx'
import { remember } from '../../state/storage.ts'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { ConfirmDialog, SecretDialog } from '../../ui/form-dialog.tsx'
import { texts } from './messages.ts'

/** Deletes the site, after its id was typed. Then shows the id of its erasure, which no list contains. */
export function DeleteSite() {
  const { site_id: siteId } = useSite()
  const { route } = useLocation()
  const remove = useOperationMutation('deleteSite', ['listSites'])
  const [isSure, setSure] = useState(false)
  const [erasureId, setErasureId] = useState<string>()
  return (
    <section class="stack" aria-labelledby="delete-title">
      <div class="stack-small">
        <h2 id="delete-title">{texts.remove}</h2>
        <p class="muted">{texts.removeText}</p>
      </div>
      <div>
        <Button kind="danger" icon="trash" onClick={() => setSure(true)}>
          {texts.remove}
        </Button>
      </div>
      {isSure ? (
        <ConfirmDialog
          title={texts.removeTitle(siteId)}
          submit={texts.removeConfirm}
          isBusy={remove.isBusy}
          error={remove.error}
          typed={siteId}
          // The site is deleted from the request on: the id of its erasure must be seen.
          isDismissible={!remove.isBusy}
          onClose={() => {
            if (!remove.isBusy) setSure(false)
          }}
          onSubmit={async () => {
            const { erasure_id: id } = await remove.run({ params: { site_id: siteId } })
            remember('site', undefined)
            setSure(false)
            setErasureId(id)
          }}
        >
          <p>{texts.removeWarning}</p>
        </ConfirmDialog>
      ) : null}
      {erasureId === undefined ? null : (
        <SecretDialog
          title={texts.removed(siteId)}
          secret={erasureId}
          what={texts.erasureId}
          actions={
            <CopyButton
              label={messages.more.copyCurl}
              text={toCurl(
                requestOf('getErasure', { params: { site_id: siteId, erasure_id: erasureId } }),
                location.origin,
              )}
              what={messages.more.what.curl}
            />
          }
          onSaved={() => {
            toast(texts.removed(siteId))
            route('/')
          }}
        >
          {texts.removedText}
        </SecretDialog>
      )}
    </section>
  )
}
