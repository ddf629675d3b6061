import { useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { useOperationMutation } from '../../api/hooks.ts'
import { ownZone } from '../../format/dates.ts'
import { sitePath } from '../../state/route.ts'
import { useMay, useSession } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
import { EmptyState, ErrorPanel, PageTitle } from '../../ui/states.tsx'
import { newKeys } from './key.ts'
import { texts } from './messages.ts'

const nameLengthMax = 64

/** The first page of somebody without a site: one field. Making the site's key registers the site. */
export default function NameSite() {
  const { route } = useLocation()
  const { environment } = useSession()
  const mayMakeKeys = useMay('admin')
  const [name, setName] = useState('')
  const [isWrong, setWrong] = useState(false)
  const form = useRef<HTMLFormElement>(null)
  const create = useOperationMutation('createSite')
  const make = useOperationMutation('createKey', ['listSites', 'listKeys'])
  const isBusy = create.isBusy || make.isBusy
  if (!mayMakeKeys) return <EmptyState isPage title={texts.nothingYet} why={texts.nothingWhy} />
  const submit = async () => {
    const siteId = name.trim()
    if (siteId === '' || Array.from(siteId).length > nameLengthMax) {
      setWrong(true)
      return
    }
    // A site that exists stays as it is. If the service does not know the zone, the key registers the site with UTC.
    await create.run({ body: { site_id: siteId, timezone: ownZone() } }).catch(() => undefined)
    const { key } = await make.run({
      body: { name: texts.keyName(siteId), scopes: ['events:write'], environment, site_ids: [siteId] },
    })
    newKeys.set(siteId, key)
    // A reader who has gone to another page stays there.
    if (form.current !== null) route(sitePath(siteId))
  }
  return (
    <div class="name-site">
      <PageTitle title={texts.nameTitle} sentence={texts.nameSentence} />
      <form
        ref={form}
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          // The change's own state shows the error.
          if (!isBusy) submit().catch(() => undefined)
        }}
      >
        <TextField
          label={texts.name}
          placeholder="my-site"
          hint={texts.nameHint}
          autofocus
          spellcheck={false}
          autocomplete="off"
          value={name}
          onInput={(value) => {
            setName(value)
            setWrong(false)
          }}
          error={isWrong ? texts.wrongName : undefined}
        />
        <ErrorPanel error={make.error} />
        <div>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            {texts.continue}
          </Button>
        </div>
      </form>
    </div>
  )
}
