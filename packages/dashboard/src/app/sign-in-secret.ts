import { call, checkSession, isSignedOut } from '../api/client.ts'
import { queryClient } from '../api/hooks.ts'
import { announce } from '../ui/announce.tsx'

/** The secret of a sign-in link: a one-time code, or a key. */
export type Secret = { code: string } | { api_key: string }

const fragmentOf = ({ hash }: Location) => new URLSearchParams(hash.slice(1))

/** Whether the address holds the secret of a sign-in link. */
export function hasSecret(): boolean {
  const fragment = fragmentOf(location)
  return fragment.has('code') || fragment.has('key')
}

/**
 * Takes the secret out of the fragment of the address (`#code=…`, `#key=…`) and clears it there before anything else
 * happens, so that it stays neither in the history nor in a copied address.
 */
export function takeSecret(): Secret | undefined {
  const fragment = fragmentOf(location)
  const code = fragment.get('code')
  const key = fragment.get('key')
  if (code === null && key === null) return undefined
  history.replaceState(null, '', location.pathname + location.search)
  return code === null ? { api_key: key ?? '' } : { code }
}

/** Opens a session and forgets what the one before has loaded. */
export async function signIn(secret: Secret): Promise<void> {
  await call('createSession', { body: secret })
  begin()
}

/**
 * Signs in if another tab of the browser has opened a session. Throws an `ApiError` if none has. Once it is aborted, it
 * does nothing.
 */
export async function signInByOtherTab(signal: AbortSignal): Promise<void> {
  await checkSession(signal)
  if (!signal.aborted) begin()
}

function begin(): void {
  queryClient.clear()
  announce('')
  isSignedOut.value = false
}
