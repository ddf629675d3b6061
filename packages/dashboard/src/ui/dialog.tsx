import type { ComponentChildren, TargetedMouseEvent } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { Announcer, raiseToast } from './announce.tsx'
import { Button } from './button.tsx'

export interface DialogProps {
  title: string
  /** Called when the dialog closes, by Escape, the close button or a click outside it. */
  onClose: () => void
  children: ComponentChildren
  /** Buttons at the end. */
  actions?: ComponentChildren
  /** False: only `actions` close it (a secret that is shown once). */
  isDismissible?: boolean
  /** `small` 440 px, `large` 760 px; both fill a narrow screen. `drawer` stands at the end of the window, 480 px. */
  size?: 'small' | 'large' | 'drawer'
}

/**
 * A modal dialog (the native element), open as long as it is rendered. Focus returns to what had it before.
 * To close it, stop rendering it.
 */
export function Dialog({ title, onClose, children, actions, isDismissible = true, size = 'small' }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const wasPressedBeside = useRef(false)
  const titleId = useId()
  useEffect(() => {
    const opener = document.activeElement
    const element = dialog.current
    if (element?.open === false) {
      element.showModal()
      raiseToast()
      // The first field, rather than the close button, which stands before it.
      const field = element.querySelector<HTMLElement>(
        '.dialog-content :is(input, select, textarea, button, a, [tabindex="0"])',
      )
      field?.focus()
      // Typing replaces what is filled in.
      if (field instanceof HTMLInputElement) field.select()
    }
    return () => {
      element?.close()
      returnFocus(opener)
    }
  }, [])
  return (
    <dialog
      ref={dialog}
      class={`dialog ${size}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        // The browser must not close it by itself: rendering decides. Events of fields inside bubble up here too.
        if (event.target !== dialog.current) return
        event.preventDefault()
        if (isDismissible) onClose()
      }}
      onKeyDown={(event) => {
        // Browsers close a dialog on the second Escape although `cancel` was prevented.
        if (event.key === 'Escape' && !isDismissible) event.preventDefault()
        event.stopPropagation()
      }}
      // A form around the dialog has a submission of its own.
      onSubmit={(event) => event.stopPropagation()}
      // Android's second Back closes it although `cancel` was prevented: rendering decides.
      onClose={({ target }) => {
        const element = dialog.current
        if (target !== element || element?.isConnected !== true) return
        element.showModal()
        if (isDismissible) onClose()
      }}
      onPointerDown={(event) => {
        wasPressedBeside.current = isBeside(event)
      }}
      // Not at the press: the page below would get the click of a tap. A press that began inside closes nothing.
      onClick={(event) => {
        if (isDismissible && wasPressedBeside.current && isBeside(event)) onClose()
      }}
    >
      <div class="dialog-body">
        <div class="dialog-head">
          <h2 id={titleId}>{title}</h2>
          {isDismissible ? (
            <Button kind="quiet" icon="x" isIconOnly onClick={onClose}>
              {messages.ui.close}
            </Button>
          ) : null}
        </div>
        <div class="dialog-content">{children}</div>
        {actions === undefined ? null : <div class="dialog-actions">{actions}</div>}
      </div>
      <Announcer />
    </dialog>
  )
}

/**
 * Whether a press hit the backdrop: it has the dialog as its target, as one on the dialog's scroll bar or its empty end
 * has.
 */
function isBeside({ target, currentTarget, clientX, clientY }: TargetedMouseEvent<HTMLDialogElement>): boolean {
  if (target !== currentTarget) return false
  const { left, right, top, bottom } = currentTarget.getBoundingClientRect()
  return clientX < left || clientX > right || clientY < top || clientY > bottom
}

/** The opener of the dialog may be gone, e.g. the row of a deleted record: then the page's title takes the focus. */
function returnFocus(opener: Element | null): void {
  if (opener instanceof HTMLElement && opener.isConnected) opener.focus()
  else document.querySelector<HTMLElement>('main h1')?.focus()
}

/** A record's details at the end of the window. The page keeps its id in the address (`usePageParameter('open')`). */
export const Drawer = (props: Omit<DialogProps, 'size'>) => <Dialog {...props} size="drawer" />
