import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { eventLimits } from '@sluice/contracts/event-limits'
import { messages } from '../../messages/en.ts'
import { type SitePage, sitePath } from '../../state/route.ts'
import { useSession } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { TextField } from '../../ui/field.tsx'
import { focusFirstProblem } from '../../ui/form-dialog.tsx'
import { PageTitle } from '../../ui/states.tsx'
import { texts } from './messages.ts'

/** Leads to `page` of a site: one of those that the session's key is bound to, or one that is typed. */
export default function ChooseSite({ page }: { page: SitePage }) {
  const { site_ids: boundTo } = useSession()
  return (
    <>
      <PageTitle title={messages.nav.sites} sentence={texts.chooseSentence} />
      {boundTo === null ? (
        <TypeSite page={page} />
      ) : (
        <ul class="stack-small" aria-label={texts.choose}>
          {boundTo.map((id) => (
            <li key={id}>
              <a href={sitePath(id, page)} class="site-link">
                <bdi>{id}</bdi>
              </a>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function TypeSite({ page }: { page: SitePage }) {
  const { route } = useLocation()
  const [id, setId] = useState('')
  const [isTried, setTried] = useState(false)
  const isWrong = id.trim() === '' || Array.from(id.trim()).length > eventLimits.siteIdLengthMax
  return (
    <form
      class="stack choose-site"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        setTried(true)
        if (isWrong) focusFirstProblem(event.currentTarget)
        else route(sitePath(id.trim(), page))
      }}
    >
      <TextField
        label={texts.id}
        hint={texts.chooseHint}
        placeholder={texts.idExample}
        value={id}
        onInput={setId}
        autofocus
        autocomplete="off"
        spellcheck={false}
        error={isTried && isWrong ? texts.missingId : undefined}
      />
      <div>
        <Button kind="primary" type="submit">
          {texts.open}
        </Button>
      </div>
    </form>
  )
}
