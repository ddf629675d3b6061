import type { ComponentChildren } from 'preact'
import { useId, useRef, useState } from 'preact/hooks'

export interface PopoverProps {
  /** Renders the button that opens it, with the attributes that connect both. */
  button: (attributes: {
    popovertarget: string
    'aria-expanded': boolean
    'aria-haspopup': 'menu' | 'dialog'
  }) => ComponentChildren
  /** Rendered only while open. */
  children: (close: () => void) => ComponentChildren
  role: 'menu' | 'dialog'
  label: string
}

const gap = 4
const edge = 8

/** A popover (the native element) below its button; Escape and a click beside it close it. A menu has arrow keys. */
export function Popover({ button, children, role, label }: PopoverProps) {
  const id = useId()
  const element = useRef<HTMLDivElement>(null)
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
  return (
    <>
      {button({ popovertarget: id, 'aria-expanded': isOpen, 'aria-haspopup': role })}
      <div
        id={id}
        ref={element}
        popover="auto"
        class={`popover ${role}`}
        role={role}
        aria-label={label}
        onToggle={(event) => {
          if (event.target !== element.current) return
          const opens = (event as unknown as ToggleEvent).newState === 'open'
          setOpen(opens)
          if (!opens) return
          requestAnimationFrame(() => {
            if (element.current === null) return
            place(element.current)
            element.current.querySelector<HTMLElement>('[role^="menuitem"], input, select, button, a')?.focus()
          })
        }}
        onKeyDown={(event) => {
          if (role === 'menu') moveInMenu(event)
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

function moveInMenu(event: KeyboardEvent): void {
  const items = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role^="menuitem"]')]
  const at = items.indexOf(document.activeElement as HTMLElement)
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key]
  if (to === undefined || items.length === 0) return
  event.preventDefault()
  event.stopPropagation()
  items.at(to % items.length)?.focus()
}

/** An entry of a menu. */
export function MenuItem({
  onSelect,
  children,
  detail,
}: {
  onSelect: () => void
  children: ComponentChildren
  detail?: ComponentChildren
}) {
  return (
    <button type="button" role="menuitem" tabIndex={-1} class="menu-item" onClick={onSelect}>
      <span>{children}</span>
      {detail === undefined ? null : <span class="muted">{detail}</span>}
    </button>
  )
}
