import { attempt } from './attempt.ts'
import type { Context } from './types.ts'

/**
 * Adds the header `baggage` with the current ids to the page's requests to these origins, by fetch and XMLHttpRequest,
 * until `signal` is aborted.
 */
export function propagate(
  wanted: readonly string[],
  context: () => Context,
  wrong: (message: string) => void,
  signal: AbortSignal,
): void {
  const origins = attempt(
    // `api.example:443` is a URL as well, but not one with an origin, and so no base of `.`.
    () => Array.from(wanted, (each) => new URL('.', each).origin),
    () => {
      wrong(`option propagate is ${wanted as unknown as string}, not origins`)
    },
  )
  /** The header for a request to this address, under the names that @sluice/node reads; '' for none. */
  const headerFor = (url: string | URL): string => {
    const isMeant = attempt(() => origins?.includes(new URL(url, document.baseURI).origin))
    // Only such a request asks for the ids: it may begin a session.
    const { session_id, anonymous_id } = isMeant && !signal.aborted ? context() : {}
    return session_id
      ? `sluice.session_id=${session_id}${anonymous_id ? `,sluice.anonymous_id=${anonymous_id}` : ''}`
      : ''
  }
  // eslint-disable-next-line @typescript-eslint/unbound-method -- fetch needs no `this`
  const { fetch } = window
  window.fetch = (input, init) => {
    // For arguments that are wrong, the browser's fetch rejects.
    const next = attempt(() => {
      const request = input as Partial<Request>
      const added = headerFor(request.url ?? (input as string | URL))
      // A Request as `init` can't be copied: its fields are getters of its class.
      if (!added || (init as Partial<Request> | undefined)?.url) return
      const headers = new Headers(init?.headers ?? request.headers)
      headers.append('baggage', added)
      return { ...init, headers }
    })
    return fetch(input, next ?? init)
  }
  const { prototype } = XMLHttpRequest
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with the request as `this`
  const { open } = prototype
  prototype.open = function (this: XMLHttpRequest, ...call: unknown[]): void {
    open.apply(this, call as Parameters<typeof open>)
    const added = headerFor(call[1] as string | URL)
    if (added) this.setRequestHeader('baggage', added)
  }
}
