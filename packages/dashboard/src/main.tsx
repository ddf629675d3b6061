import { render } from 'preact'
import { isSignedOut } from './api/client.ts'
import { prefetch } from './api/hooks.ts'
import { App } from './app/app.tsx'
import { hasSecret, takeSecret } from './app/sign-in-secret.ts'
import { routeOf } from './state/route.ts'
import { loadTemporal } from './state/temporal.ts'
import { keepFocus } from './ui/keep-focus.ts'

const secret = takeSecret()
let session: Promise<void> | undefined
if (secret === undefined) {
  // Both are fetched at once, rather than the site once the session is known; start.ts has requested them already.
  session = prefetch('getSession', {})
  const route = routeOf(location.pathname)
  if ('siteId' in route) void prefetch('getSite', { params: { site_id: route.siteId } })
}
// A sign-in link that is opened where the dashboard is shown already changes the fragment alone.
addEventListener('hashchange', () => {
  if (hasSecret()) location.reload()
})
// The browser's Back may show a document in the state in which the reader left it. A document that was left after a
// sign-out does not know of a later sign-in.
addEventListener('pageshow', ({ persisted }) => {
  if (persisted && isSignedOut.value) location.reload()
})
const root = document.getElementById('app')
// Until it is known who is signed in, only the outline in index.html can be shown.
await Promise.all([loadTemporal(), session])
if (root !== null) {
  root.replaceChildren()
  keepFocus()
  render(<App secret={secret} />, root)
}
