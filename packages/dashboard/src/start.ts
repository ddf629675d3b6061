// Runs before the first paint: it is a classic script, because a module would run later. It sets the theme, preloads
// the data that every page needs, and starts the dashboard (main.tsx) once the outline of the page in index.html is
// painted.

// The theme is set before the first paint, so that the page does not flash. Without a chosen theme, or when storage is
// blocked, the page follows the system.
try {
  const theme = localStorage.getItem('theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // Storage is blocked.
}

/** Preloads an address: when main.tsx requests it later, the browser uses the answer to this request. */
function preload(href: string): void {
  const link = document.createElement('link')
  Object.assign(link, { rel: 'preload', as: 'fetch', crossOrigin: 'anonymous', href })
  document.head.append(link)
}

// With the secret of a sign-in link, there is no session yet.
if (!/[#&](code|key)=/.test(location.hash)) {
  preload('/api/v1/session')
  const [, site] = /^\/sites\/([^/]+)/.exec(location.pathname) ?? []
  if (site !== undefined) preload(`/api/v1/sites/${site}`)
}

function start(): void {
  const main = document.querySelector<HTMLLinkElement>('#main-module')
  if (main !== null) import(main.href).catch(showFailure)
}

/**
 * The dashboard can't be loaded: a server of another build answered, as during a rolling deploy, or the connection
 * broke. The page says so in place of its outline.
 */
function showFailure(): void {
  const page = replaceOutline('load-failed')
  page?.querySelector('button')?.addEventListener('click', () => location.reload())
}

/** Shows an element of index.html, by its id, in place of the outline. */
function replaceOutline(id: string): HTMLElement | null {
  const page = document.getElementById(id)
  if (page === null) return null
  page.hidden = false
  document.getElementById('app')?.replaceChildren(page)
  return page
}

// In a browser that does not know popovers, the first message would end the dashboard.
if (!('showPopover' in HTMLElement.prototype)) addEventListener('DOMContentLoaded', () => replaceOutline('old-browser'))
// A page in the background is not painted. A task that is queued in a frame's callback runs after the frame is painted.
else if (document.hidden) start()
else requestAnimationFrame(() => setTimeout(start))
