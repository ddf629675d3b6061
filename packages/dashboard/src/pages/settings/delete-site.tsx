import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { useOperationMutation } from '../../api/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { remember } from '../../state/storage.ts'
import { toast } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { ConfirmDialog } from '../../ui/form-dialog.tsx'
import { texts } from './messages.ts'

/** Deletes the site, after its id was typed. */
export function DeleteSite() {
  const { site_id: siteId } = useSite()
  const { route } = useLocation()
  const remove = useOperationMutation('deleteSite', ['listSites'])
  const [isSure, setSure] = useState(false)
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
          onClose={() => setSure(false)}
          onSubmit={async () => {
            await remove.run({ params: { site_id: siteId } })
            remember('site', undefined)
            toast(texts.removed(siteId))
            route('/')
          }}
        >
          <p>{texts.removeWarning}</p>
        </ConfirmDialog>
      ) : null}
    </section>
  )
}
