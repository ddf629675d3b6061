import { useEffect, useState } from 'preact/hooks'
import { asApiError } from '../api/error.ts'
import { messages } from '../messages/en.ts'
import { Button } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { Logo } from './logo.tsx'
import { signIn } from './sign-in-secret.ts'

/** The sign-in page, at any address, which stays: what was asked for comes after signing in. */
export function SignIn({ problem, onSignedIn }: { problem: string | undefined; onSignedIn: () => void }) {
  const [key, setKey] = useState('')
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    document.title = `${messages.nav.signin} · Sluice`
  }, [])
  const submit = async () => {
    setBusy(true)
    try {
      await signIn({ api_key: key.trim() })
      onSignedIn()
    } catch (failure) {
      const { status, message } = asApiError(failure)
      setError(status === 401 || status === 400 ? messages.signIn.wrong : message)
    }
    setBusy(false)
  }
  return (
    <main class="lone">
      <form
        class="sign-in"
        onSubmit={(event) => {
          event.preventDefault()
          if (!isBusy) void submit()
        }}
      >
        <Logo />
        <h1>{messages.signIn.title}</h1>
        {problem === undefined ? null : (
          <p role="alert" class="notice">
            {problem}
          </p>
        )}
        <TextField
          label={messages.signIn.key}
          type="password"
          autocomplete="current-password"
          autofocus
          required
          spellcheck={false}
          value={key}
          onInput={(value) => {
            setKey(value)
            setError(undefined)
          }}
          error={error}
          hint={
            <>
              {messages.signIn.lost} <code>{messages.signIn.lostCommand}</code>
            </>
          }
        />
        <Button kind="primary" type="submit" isBusy={isBusy}>
          {messages.signIn.submit}
        </Button>
      </form>
    </main>
  )
}
