import { useState } from 'preact/hooks'
import { isOwnSignOut, isSignedOut } from '../../api/client.ts'
import { queryClient, useOperationMutation } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { useSession } from '../../state/session.tsx'
import { remember, remembered } from '../../state/storage.ts'
import { Button } from '../../ui/button.tsx'
import { Checkbox, RadioGroup } from '../../ui/choice.tsx'
import { Details } from '../../ui/details.tsx'
import { ErrorPanel, PageTitle } from '../../ui/states.tsx'
import { At } from '../../ui/time.tsx'
import { texts } from './messages.ts'

/** Who is signed in and until when, what this browser remembers, and the way out. */
export default function Page() {
  const session = useSession()
  const signOut = useOperationMutation('deleteSession')
  const leave = async () => {
    await signOut.run({})
    // The browser may keep this document and show it again on Back. It must then contain nothing of the session.
    queryClient.clear()
    isOwnSignOut.value = true
    isSignedOut.value = true
    location.assign('/signin')
  }
  return (
    <>
      <PageTitle
        title={messages.nav.session}
        actions={
          <Button
            icon="log-out"
            isBusy={signOut.isBusy}
            onClick={() => {
              leave().catch(() => undefined)
            }}
          >
            {texts.signOut}
          </Button>
        }
      />
      <div class="stack session">
        <ErrorPanel error={signOut.error} />
        <Details
          items={[
            [texts.who, <bdi>{session.name}</bdi>],
            [texts.key, <code>{session.key_id}</code>],
            [texts.scopes, <code>{session.scopes.join(', ')}</code>],
            [texts.environment, texts.environments[session.environment]],
            [texts.sites, session.site_ids === null ? texts.allSites : <bdi>{session.site_ids.join(', ')}</bdi>],
            session.expires_at !== null && [
              texts.until,
              <>
                <At ms={session.expires_at} /> <span class="muted">{texts.untilHint}</span>
              </>,
            ],
            [texts.collect, <code>{session.collect_url}</code>],
          ]}
        />
        <h2>{texts.look}</h2>
        <Theme />
        <KeyboardShortcuts />
        <Licences />
      </div>
    </>
  )
}

type ThemeName = keyof typeof texts.themes

function Theme() {
  const { dataset } = document.documentElement
  const [theme, setTheme] = useState<ThemeName>(
    dataset.theme === 'light' || dataset.theme === 'dark' ? dataset.theme : 'system',
  )
  return (
    <RadioGroup
      isInline
      legend={texts.theme}
      value={theme}
      options={(['system', 'light', 'dark'] as const).map((value) => ({ value, label: texts.themes[value] }))}
      onChange={(chosen) => {
        setTheme(chosen)
        if (chosen === 'system') delete dataset.theme
        else dataset.theme = chosen
        remember('theme', chosen === 'system' ? undefined : chosen)
      }}
    />
  )
}

/** Link to the licences of the bundled packages, a file of the build that index.html names. */
function Licences() {
  const file = document.querySelector<HTMLLinkElement>('link[rel="license"]')
  if (file === null) return null
  return (
    <p class="small">
      <a href={file.href} target="_blank" rel="noreferrer">
        {texts.licences}
      </a>
    </p>
  )
}

function KeyboardShortcuts() {
  const [isOn, setOn] = useState(remembered('shortcuts') !== 'off')
  return (
    <fieldset>
      <legend class="legend">{texts.shortcuts}</legend>
      <Checkbox
        label={texts.shortcutsOn}
        hint={texts.shortcutsHint}
        checked={isOn}
        onChange={(chosen) => {
          setOn(chosen)
          remember('shortcuts', chosen ? undefined : 'off')
        }}
      />
    </fieldset>
  )
}
