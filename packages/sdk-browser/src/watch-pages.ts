import { pageUrl } from './read-browser.ts'

/**
 * Calls `onPage` for the current page, when a script changes the path or the query, and when the browser restores the
 * page from its back/forward cache, until `signal` is aborted. It is called in the next task. Frameworks that
 * render later set the title too late for it. `hasHash`: whether a change of the hash is a page view.
 */
export function watchPages(
  onPage: (referrer: string) => void,
  hasHash: boolean | undefined,
  signal: AbortSignal,
): void {
  let current = ''
  let { referrer } = document
  let timer: ReturnType<typeof setTimeout> | undefined
  const check = (event?: Event): void => {
    if ((event as PageTransitionEvent | undefined)?.persisted) current = referrer = ''
    clearTimeout(timer)
    timer = setTimeout(() => {
      const url = pageUrl(hasHash)
      if (signal.aborted || url === current) return
      onPage(referrer)
      current = referrer = url
    })
  }
  for (const type of ['hashchange', 'popstate', 'pageshow']) addEventListener(type, check, { signal })
  const { navigation } = window as { navigation?: EventTarget }
  navigation?.addEventListener('currententrychange', check, { signal })
  check()
  // Private windows of Safari 26.2 to 26.4 send no such event for these calls.
  for (const name of ['pushState', 'replaceState'] as const) {
    // eslint-disable-next-line @typescript-eslint/unbound-method -- called with the history as `this`
    const original = history[name]
    history[name] = function (...call) {
      original.apply(this, call)
      check()
    }
  }
}
