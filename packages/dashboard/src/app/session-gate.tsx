import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import type { SessionResource } from '@sluice/contracts/session'
import { call, isOwnSignOut, isSignedOut } from '../api/client.ts'
import type { ApiError } from '../api/error.ts'
import { asApiError } from '../api/error.ts'
import { queryClient, useApi } from '../api/hooks.ts'
import { messages } from '../messages/en.ts'
import { startClock } from '../state/clock.ts'
import { SessionContext } from '../state/session.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { isGuarded } from '../ui/leave-guard.ts'
import { ErrorPanel } from '../ui/states.tsx'
import { Frame } from './frame.tsx'
import { SignIn } from './sign-in.tsx'
import { type Secret, signIn, signInByOtherTab } from './sign-in-secret.ts'

/** A revoked key is noticed within this time, in addition to the two seconds that revoking takes, ms. */
const sessionCheckMs = 2_500

/** Signs in, and renders the frame once it is known who is signed in. */
export const SessionGate = ({ secret }: { secret: Secret | undefined }) =>
  secret === undefined ? <SignedIn /> : <SignInBySecret secret={secret} />

type Step =
  | { kind: 'checking' }
  /** It could not be found out whether there is a session. */
  | { kind: 'unknown'; error: ApiError }
  /** There is a session: it stays, or the secret opens another. */
  | { kind: 'asking'; session: SessionResource; isSwitching: boolean }
  | { kind: 'failed'; error: ApiError }
  | { kind: 'done' }

/** Opens a session by the secret of a link; asks before it replaces one. */
function SignInBySecret({ secret }: { secret: Secret }) {
  const [step, setStep] = useState<Step>({ kind: 'checking' })
  const setDone = () => {
    setStep({ kind: 'done' })
  }
  const open = () =>
    signIn(secret).then(setDone, (failure: unknown) => {
      setStep({ kind: 'failed', error: asApiError(failure) })
    })
  const check = async () => {
    setStep({ kind: 'checking' })
    try {
      setStep({ kind: 'asking', session: await call('getSession', {}), isSwitching: false })
    } catch (failure) {
      const error = asApiError(failure)
      // There may be a session all the same, which the link of somebody else must not replace unasked.
      if (error.status !== 401) {
        setStep({ kind: 'unknown', error })
        return
      }
      isSignedOut.value = false
      await open()
    }
  }
  useEffect(() => void check(), [])
  switch (step.kind) {
    case 'checking':
      return <p class="signing-in muted">{messages.signIn.signingIn}</p>
    case 'unknown':
      return <FullPageError error={step.error} onRetry={() => void check()} />
    case 'asking':
      return (
        <Dialog
          title={messages.signIn.stayTitle}
          isDismissible={false}
          onClose={() => undefined}
          actions={
            <>
              <Button kind="primary" disabled={step.isSwitching} onClick={setDone}>
                {messages.signIn.stayButton}
              </Button>
              <Button
                isBusy={step.isSwitching}
                onClick={() => {
                  setStep({ ...step, isSwitching: true })
                  void open()
                }}
              >
                {messages.signIn.switchButton}
              </Button>
            </>
          }
        >
          <p>{messages.signIn.stay(step.session.name)}</p>
        </Dialog>
      )
    case 'failed':
      return (
        <SignIn
          problem={step.error.status === 401 && 'code' in secret ? messages.signIn.wrongCode : step.error.message}
          onSignedIn={setDone}
        />
      )
    case 'done':
      return <SignedIn />
  }
}

/** An error in place of the whole dashboard: it is not known who is signed in. */
function FullPageError({ error, onRetry }: { error: ApiError; onRetry: () => void }) {
  return (
    <main class="lone">
      <ErrorPanel error={error} onRetry={onRetry} />
    </main>
  )
}

/**
 * Returns the session of an earlier check while the present one differs from it only by less than a minute of its end:
 * with the same object, the page is not rendered at each check.
 */
function useStableSession(session: SessionResource | undefined): SessionResource | undefined {
  const kept = useRef(session)
  const toTheMinute = (checked: SessionResource | undefined) =>
    JSON.stringify(checked && { ...checked, expires_at: Math.floor((checked.expires_at ?? 0) / 60_000) })
  if (toTheMinute(kept.current) !== toTheMinute(session)) kept.current = session
  return kept.current
}

/**
 * Returns the session whose pages are shown, and forgets what was loaded when another tab has replaced it: answers to
 * one key are not for the next one. What shows them has to be rendered anew by its `key`. While a page shows what would
 * be lost, such as a secret that is shown once, the former session stays; the session is checked again soon.
 */
function useShownSession(session: SessionResource | undefined): SessionResource | undefined {
  const shown = useRef(session)
  const isReplaced = session !== undefined && shown.current !== undefined && session.key_id !== shown.current.key_id
  if (isReplaced && isGuarded()) return shown.current
  if (isReplaced) queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'getSession' })
  shown.current = session ?? shown.current
  return session
}

function SignedIn() {
  const { path, route } = useLocation()
  const isEnded = isSignedOut.value
  const session = useApi('getSession', isEnded ? null : {}, { refetchMs: sessionCheckMs, keepsPreviousData: false })
  const shownSession = useShownSession(useStableSession(session.data))
  const keyId = shownSession?.key_id
  // Preact renders an element again only if it is another one.
  const frame = useMemo(() => <Frame />, [keyId])
  const isAtSignIn = path === '/signin'
  const hasSession = session.data !== undefined
  useEffect(() => {
    if (hasSession && isAtSignIn) route('/', true)
  }, [hasSession, isAtSignIn])
  // If the page had a session before, the sign-in page says that it has ended.
  const [hadSession, setHadSession] = useState(false)
  useEffect(() => {
    if (hasSession) setHadSession(true)
  }, [hasSession])
  useEffect(() => {
    if (!isEnded) return undefined
    let last = new AbortController()
    const checkOtherTab = () => {
      if (document.hidden) return
      // Only one check may sign in, because each sign-in clears the cache.
      last.abort()
      last = new AbortController()
      // The user did not request this check, so its failure is not shown.
      signInByOtherTab(last.signal).catch(() => undefined)
    }
    document.addEventListener('visibilitychange', checkOtherTab)
    // Of two windows side by side, both are visible all the time.
    addEventListener('focus', checkOtherTab)
    return () => {
      document.removeEventListener('visibilitychange', checkOtherTab)
      removeEventListener('focus', checkOtherTab)
      last.abort()
    }
  }, [isEnded])
  if (isEnded || session.error?.status === 401) {
    return (
      <SignIn
        problem={hadSession && !isOwnSignOut.value ? messages.signIn.ended : undefined}
        onSignedIn={() => setHadSession(false)}
      />
    )
  }
  if (shownSession === undefined) {
    return session.error === undefined ? null : <FullPageError error={session.error} onRetry={session.retry} />
  }
  startClock()
  return (
    <SessionContext.Provider key={keyId} value={shownSession}>
      {frame}
    </SessionContext.Provider>
  )
}
