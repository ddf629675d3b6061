import { call, isSignedOut } from '../api/client.ts'
import { queryClient } from '../api/hooks.ts'

/** What a sign-in link holds: a one-time code, or a key. */
export type Secret = { code: string } | { api_key: string }

/**
 * Takes the secret out of the fragment of the address (`#code=…`, `#key=…`) and clears it there before anything else
 * happens, so that it stays neither in the history nor in a copied address.
 */
export function takeSecret(): Secret | undefined {
  const fragment = new URLSearchParams(location.hash.slice(1))
  const code = fragment.get('code')
  const key = fragment.get('key')
  if (code === null && key === null) return undefined
  history.replaceState(null, '', location.pathname + location.search)
  return code === null ? { api_key: key ?? '' } : { code }
}

/** Opens a session and forgets what the one before has loaded. */
export async function signIn(secret: Secret): Promise<void> {
  await call('createSession', { body: secret })
  queryClient.clear()
  isSignedOut.value = false
}
