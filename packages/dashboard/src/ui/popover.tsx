import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'

export interface PopoverProps {
  /** Renders the button that opens it, with the attributes that connect both. */
  button: (attributes: {
    popovertarget: string
    'aria-expanded': boolean
    'aria-haspopup': 'dialog' | undefined
  }) => ComponentChildren
  /** Rendered only while open. */
  children: (close: () => void) => ComponentChildren
  /** `actions` holds buttons and links, which the arrow keys reach too. */
  kind: 'actions' | 'dialog'
  label: string
}

const gap = 4
const edge = 8

/** A popover (the native element) below its button; Escape, a click outside it and Tab past its end close it. */
export function Popover({ button, children, kind, label }: PopoverProps) {
  const id = useId()
  const element = useRef<HTMLDivElement>(null)
  /** Whether a press, not a key, came last: then `onPress` or the browser decides whether it closes. */
  const isPressed = useRef(false)
  const [isOpen, setOpen] = useState(false)
  const opener = () => document.querySelector<HTMLElement>(`[popovertarget="${CSS.escape(id)}"]`)
  const close = () => {
    element.current?.hidePopover()
    opener()?.focus()
  }
  const place = (popover: HTMLElement) => {
    const anchor = opener()?.getBoundingClientRect()
    if (anchor === undefined) return
    const { offsetWidth: width, offsetHeight: height } = popover
    const isRightToLeft = getComputedStyle(popover).direction === 'rtl'
    const wanted = isRightToLeft === anchor.left > innerWidth / 2 ? anchor.left : anchor.right - width
    const below = anchor.bottom + gap
    const top = below + height > innerHeight - edge ? Math.max(edge, anchor.top - gap - height) : below
    popover.style.left = `${Math.min(Math.max(edge, wanted), Math.max(edge, innerWidth - width - edge))}px`
    popover.style.top = `${top}px`
  }
  // Safari before 18.3 does not close a popover at a tap outside it.
  useEffect(() => {
    if (!isOpen) return
    const onPress = ({ target }: PointerEvent) => {
      isPressed.current = true
      if (target instanceof Node && !isInside(target)) element.current?.hidePopover()
    }
    document.addEventListener('pointerdown', onPress, true)
    return () => document.removeEventListener('pointerdown', onPress, true)
  }, [isOpen])
  const isInside = (node: Node) => element.current?.contains(node) === true || opener()?.contains(node) === true
  return (
    <>
      {button({ popovertarget: id, 'aria-expanded': isOpen, 'aria-haspopup': kind === 'dialog' ? kind : undefined })}
      <div
        id={id}
        ref={element}
        popover="auto"
        // Safari focuses no button that is clicked, but the nearest element around it that can have the focus.
        tabIndex={-1}
        class={`popover ${kind}`}
        role={kind === 'dialog' ? kind : 'group'}
        aria-label={label}
        onToggle={(event) => {
          if (event.target !== element.current) return
          const opens = (event as unknown as ToggleEvent).newState === 'open'
          setOpen(opens)
          if (!opens) return
          isPressed.current = false
          requestAnimationFrame(() => {
            if (element.current === null) return
            place(element.current)
            element.current.querySelector<HTMLElement>('input, select, button, a')?.focus()
          })
        }}
        onFocusOut={({ relatedTarget }) => {
          // Tab has left it. If a press on the button that opened it hid it here, the click would open it again.
          if (isPressed.current || !(relatedTarget instanceof Node)) return
          if (element.current?.contains(relatedTarget) === false) element.current.hidePopover()
        }}
        onKeyDown={(event) => {
          isPressed.current = false
          if (kind === 'actions') moveAmongActions(event)
          if (event.key === 'Escape') {
            event.stopPropagation()
            close()
          }
        }}
      >
        {isOpen ? children(close) : null}
      </div>
    </>
  )
}

function moveAmongActions(event: KeyboardEvent): void {
  const items = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('button, a')]
  const at = items.indexOf(document.activeElement as HTMLElement)
  const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? -1 : at - 1, Home: 0, End: -1 }[event.key]
  if (to === undefined || items.length === 0) return
  event.preventDefault()
  event.stopPropagation()
  items.at(to % items.length)?.focus()
}

/** A button of a popover of actions; `detail` describes it, and is not part of its name. */
export function Action({
  onSelect,
  children,
  detail,
}: {
  onSelect: () => void
  children: ComponentChildren
  detail?: string
}) {
  const id = useId()
  return (
    <button
      type="button"
      class="menu-item"
      aria-labelledby={id}
      aria-description={detail}
      data-detail={detail}
      onClick={onSelect}
    >
      <span id={id}>{children}</span>
    </button>
  )
}
