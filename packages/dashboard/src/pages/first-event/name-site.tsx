import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { asApiError } from '../../api/error.ts'
import { useChange } from '../../api/hooks.ts'
import { ownZone } from '../../format/dates.ts'
import { sitePath } from '../../state/route.ts'
import { useMay, useSession } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
import { EmptyState, ErrorPanel, PageTitle } from '../../ui/states.tsx'
import { newKeys } from './key.ts'
import { texts } from './messages.ts'

const nameLengthMax = 64
/** The status of the answer if the site already exists. */
const conflict = 409

/** The first page of somebody without a site: one field. The site gets the browser's time zone, and a key. */
export default function NameSite() {
  const { route } = useLocation()
  const { environment } = useSession()
  const mayMakeKeys = useMay('admin')
  const [name, setName] = useState('')
  const [isWrong, setWrong] = useState(false)
  const create = useChange('createSite')
  const make = useChange('createKey', ['listSites', 'listKeys'])
  const isBusy = create.isBusy || make.isBusy
  if (!mayMakeKeys) return <EmptyState isPage title={texts.nothingYet} why={texts.nothingWhy} />
  const submit = async () => {
    const siteId = name.trim()
    if (siteId === '' || Array.from(siteId).length > nameLengthMax) {
      setWrong(true)
      return
    }
    try {
      await create.run({ body: { site_id: siteId, timezone: ownZone() } })
    } catch (error) {
      // An attempt before this one registered it, and failed to make the key.
      if (asApiError(error).status !== conflict) throw error
    }
    const { key } = await make.run({
      body: { name: texts.keyName(siteId), scopes: ['events:write'], environment, site_ids: [siteId] },
    })
    newKeys.set(siteId, key)
    route(sitePath(siteId))
  }
  return (
    <div class="name-site">
      <PageTitle title={texts.nameTitle} sentence={texts.nameSentence} />
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          // The changes' own states show the error.
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
        <ErrorPanel error={create.error?.status === conflict ? make.error : (create.error ?? make.error)} />
        <div>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            {texts.continue}
          </Button>
        </div>
      </form>
    </div>
  )
}
