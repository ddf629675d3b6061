import { useLayoutEffect, useRef } from 'preact/hooks'

/**
 * What happens when the reader wants to leave the page. `ask`: the dashboard asks first. `hold`: links and the browser's
 * buttons do nothing, because a request is under way whose answer the reader must see. `stay`: only the browser's buttons
 * do nothing. This rule is for modal dialogs that only their own buttons close, and these buttons may lead to a page.
 */
type LeaveRule = 'ask' | 'hold' | 'stay'

interface Guard {
  rule: LeaveRule
}

const guards = new Set<Guard>()

/** Whether something would be lost now if the page were left. */
export const isGuarded = (): boolean => guards.size > 0

/** The address to which the browser's buttons led, if they and no script have moved last. */
let byBrowser: string | undefined

// A script tells the router of its own moves by the same event.
addEventListener(
  'popstate',
  ({ isTrusted }) => {
    byBrowser = isTrusted ? location.pathname + location.search : undefined
  },
  true,
)

/** The page and the record that is open or edited on it: an address with another key counts as leaving. */
const pageKeyOf = (url: string) => {
  const { pathname, searchParams } = new URL(url, location.origin)
  return JSON.stringify([pathname, searchParams.get('open'), searchParams.get('edit')])
}

/**
 * What to do on the way from one address of the dashboard to another: to ask, or to stay; undefined where nothing would
 * be lost.
 */
export function leaveRule(from: string, to: string): 'ask' | 'stay' | undefined {
  const rules = [...guards].map(({ rule }) => rule)
  const isLeaving = pageKeyOf(from) !== pageKeyOf(to)
  if ((isLeaving && rules.includes('hold')) || (to === byBrowser && rules.includes('stay'))) return 'stay'
  return isLeaving && rules.includes('ask') ? 'ask' : undefined
}

/**
 * While `isActive`, something would be lost by leaving: `rule` applies within the dashboard, and the browser asks before
 * the dashboard is left or reloaded. The returned function ends the guard at once, for a page that leads to another page
 * by itself. A later change of `rule` does not start the guard again.
 */
export function useLeaveGuard(rule: LeaveRule, isActive: boolean): () => void {
  const end = useRef<() => void>(() => undefined)
  const { current: guard } = useRef<Guard>({ rule })
  useLayoutEffect(() => {
    guard.rule = rule
  }, [rule])
  useLayoutEffect(() => {
    if (!isActive) return undefined
    const ask = (event: BeforeUnloadEvent) => event.preventDefault()
    guards.add(guard)
    addEventListener('beforeunload', ask)
    end.current = () => {
      guards.delete(guard)
      removeEventListener('beforeunload', ask)
    }
    return end.current
  }, [isActive])
  return () => end.current()
}
