import { Fragment } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { messages } from '../messages/en.ts'
import { remembered } from '../state/storage.ts'
import { Dialog } from '../ui/dialog.tsx'
import { allDestinations, useHrefOf } from './navigation.tsx'

type Handler = () => void
interface Shortcut {
  handler: Handler
  description: string
}

const registered = new Map<string, Shortcut>()

/** Registers a shortcut for as long as the component is there: `key` as `KeyboardEvent.key` has it, letters small. */
export function useShortcut(key: string, description: string, handler: Handler): void {
  const latest = useRef(handler)
  latest.current = handler
  useEffect(() => {
    const shortcut = {
      description,
      handler: () => latest.current(),
    }
    registered.set(key, shortcut)
    return () => {
      if (registered.get(key) === shortcut) registered.delete(key)
    }
  }, [key, description])
}

const followMs = 1_500

/** Whether a key press belongs to a field, a menu or a dialog. */
function isTaken(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true
  // With Shift, these keys select text or scroll; of the others, Shift makes characters such as ?.
  if (event.shiftKey && (event.key.length > 1 || event.key === ' ')) return true
  const target = event.target instanceof Element ? event.target : undefined
  if (
    target?.closest(
      'input:not([type="radio"], [type="checkbox"]), select, textarea, [contenteditable], [role="combobox"], .popover.actions, [role="tablist"]',
    ) != null
  )
    return true
  // Space presses what has the focus.
  if (event.key === ' ' && target?.closest('button, a, summary, input, [role="radio"]') != null) return true
  if (event.key.startsWith('Arrow') && target?.closest('input, [role="img"], figure') != null) return true
  return document.querySelector('dialog[open], [popover]:popover-open:not(.toast)') !== null
}

/** Handles shortcuts on keydown, never with modifiers or in fields; `?` lists them. */
export function Shortcuts({ siteId }: { siteId: string | undefined }) {
  const { route } = useLocation()
  const hrefOf = useHrefOf(siteId)
  const [isHelp, setHelp] = useState(false)
  const gone = useRef(0)
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (isTaken(event) || remembered('shortcuts') === 'off') return
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key
      if (Date.now() - gone.current < followMs) {
        gone.current = 0
        const page = allDestinations.find((each) => each.letter === key)?.page
        const href = page === undefined ? undefined : hrefOf(page)
        if (href !== undefined) {
          event.preventDefault()
          route(href)
          return
        }
      }
      if (key === 'g') gone.current = Date.now()
      else if (key === '?') setHelp(true)
      else {
        const shortcut = registered.get(key)
        if (shortcut === undefined) return
        event.preventDefault()
        shortcut.handler()
      }
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  })
  if (!isHelp) return null
  return (
    <Dialog size="large" title={messages.shortcuts.title} onClose={() => setHelp(false)}>
      <dl class="keys">
        {[...registered].map(([key, { description }]) => (
          <div key={key}>
            <dt>
              <kbd>{messages.shortcuts.keys[key] ?? key.toUpperCase()}</kbd>
            </dt>
            <dd>{description}</dd>
          </div>
        ))}
        {allDestinations.map(({ page, letter }) => (
          <div key={page}>
            <dt>
              <kbd>G</kbd> <kbd>{letter.toUpperCase()}</kbd>
            </dt>
            <dd>{messages.nav[page]}</dd>
          </div>
        ))}
        {messages.shortcuts.clicks.map(({ keys, description }) => (
          <div key={description}>
            <dt>
              {keys.map((key) => (
                <Fragment key={key}>
                  <kbd>{key}</kbd>{' '}
                </Fragment>
              ))}
            </dt>
            <dd>{description}</dd>
          </div>
        ))}
      </dl>
      <p class="muted small">{messages.shortcuts.off}</p>
    </Dialog>
  )
}
