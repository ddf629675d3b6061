import { useLayoutEffect, useRef } from 'preact/hooks'

/**
 * What happens on the way to another page. `ask`: there is a question first, whatever leads away. `stay`: the browser's
 * buttons do nothing. It is for modal dialogs that only their own buttons close; where those lead is followed.
 */
type LeaveRule = 'ask' | 'stay'

interface Guard {
  rule: LeaveRule
}

const guards = new Set<Guard>()

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

/** The page and the record that is open on it, by which a change of the address counts as leaving. */
const placeOf = (url: string) => {
  const { pathname, searchParams } = new URL(url, location.origin)
  return JSON.stringify([pathname, searchParams.get('open')])
}

/** The rule for the way from one address of the dashboard to another; undefined where nothing would be lost. */
export function leaveRule(from: string, to: string): LeaveRule | undefined {
  const rules = [...guards].map(({ rule }) => rule)
  if (to === byBrowser && rules.includes('stay')) return 'stay'
  return rules.includes('ask') && placeOf(from) !== placeOf(to) ? 'ask' : undefined
}

/**
 * While `isActive`, something would be lost by leaving: `rule` applies within the dashboard, and the browser asks before
 * the dashboard is left or reloaded. The function that is returned ends it at once, for a page that goes on to another.
 */
export function useLeaveGuard(rule: LeaveRule, isActive: boolean): () => void {
  const end = useRef<() => void>(() => undefined)
  useLayoutEffect(() => {
    if (!isActive) return undefined
    const guard = { rule }
    const ask = (event: BeforeUnloadEvent) => {
      event.preventDefault()
    }
    guards.add(guard)
    addEventListener('beforeunload', ask)
    end.current = () => {
      guards.delete(guard)
      removeEventListener('beforeunload', ask)
    }
    return end.current
  }, [rule, isActive])
  return () => {
    end.current()
  }
}
