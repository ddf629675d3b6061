import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { LocationProvider } from 'preact-iso/router'
import { messages } from '../messages/en.ts'
import { followAddress, useWholeLocation } from '../state/hooks.ts'
import { ConfirmDialog } from '../ui/form-dialog.tsx'
import { leaveRule } from '../ui/leave-guard.ts'

/** The key of the current entry of the history; undefined in browsers without the Navigation API. */
const currentEntry = (): string | undefined => (window as { navigation?: Navigation }).navigation?.currentEntry?.key

/**
 * Lets the pages follow the address, except where something on the page would be lost (`useLeaveGuard`): then they keep
 * the address before, until it is restored or the reader chooses to leave. So it does not matter what leads away: a
 * link, a shortcut, a button of the page, or the browser's Back, which can't be prevented.
 */
export function GuardedLocation({ children }: { children: ComponentChildren }) {
  const location = useWholeLocation()
  const followed = useRef(location)
  const [chosen, choose] = useState<object>()
  const isElsewhere = location.url !== followed.current.url && location !== chosen
  const rule = isElsewhere ? leaveRule(followed.current.url, location.url) : undefined
  if (rule === undefined) followed.current = location
  const entry = useRef<string>()
  const restore = () => {
    const push = () => {
      history.pushState(null, '', followed.current.url)
      followAddress()
    }
    if (entry.current !== undefined && entry.current !== currentEntry()) {
      const { committed, finished } = navigation.traverseTo(entry.current)
      // Safari 26.2 may not know the key of an entry that `replaceState` has changed.
      committed?.catch(push)
      finished?.catch(() => undefined)
    } else if (location.wasPush) history.back()
    else push()
  }
  useLayoutEffect(() => {
    if (rule === undefined) entry.current = currentEntry()
    if (rule === 'stay') restore()
  }, [rule, location])
  return (
    <LocationProvider.ctx.Provider value={followed.current}>
      {children}
      {rule === 'ask' ? (
        <ConfirmDialog
          title={messages.leave.title}
          submit={messages.leave.submit}
          isBusy={false}
          onClose={restore}
          onSubmit={() => choose(location)}
        >
          <p>{messages.leave.text}</p>
        </ConfirmDialog>
      ) : null}
    </LocationProvider.ctx.Provider>
  )
}
