import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { messages } from '../../messages/en.ts'
import { type SitePage, sitePath } from '../../state/route.ts'
import { useSession } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { focusFirstProblem } from '../../ui/form-dialog.tsx'
import { PageTitle } from '../../ui/states.tsx'
import { texts } from './messages.ts'
import { isSiteId, SiteIdField } from './site-id-field.tsx'

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
  const isWrong = !isSiteId(id)
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
      <SiteIdField
        value={id}
        onInput={setId}
        hint={texts.chooseHint}
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
