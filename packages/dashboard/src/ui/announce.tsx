import { signal } from '@preact/signals'
import { Icon } from './icon.tsx'

const spoken = signal('')
const shown = signal<{ text: string; id: number } | undefined>(undefined)
let toasts = 0
const toastMs = 4_000

/** Has screen readers say a text, politely. */
export function announce(text: string): void {
  // The same text twice is spoken twice only when it differs.
  spoken.value = spoken.value === text ? `${text} ` : text
}

/** Shows a short text for four seconds and has it spoken: what a click has done where nothing else shows it. */
export function toast(text: string): void {
  const id = ++toasts
  shown.value = { text, id }
  announce(text)
  setTimeout(() => {
    if (shown.value?.id === id) shown.value = undefined
  }, toastMs)
}

/** Moves the visible toast above a dialog that was opened after it. */
export function raiseToast(): void {
  const toast = document.querySelector<HTMLElement>('.toast:popover-open')
  toast?.hidePopover()
  toast?.showPopover()
}

/** The one polite region and the place of toasts; the frame renders it. */
export function Announcements() {
  return (
    <>
      <div class="hidden-text" aria-live="polite" id="announcements">
        {spoken}
      </div>
      {shown.value === undefined ? null : (
        <div
          class="toast"
          key={shown.value.id}
          popover="manual"
          ref={(element: HTMLElement | null) => {
            if (element?.matches(':popover-open') === false) element.showPopover()
          }}
        >
          <Icon name="check" />
          {shown.value.text}
        </div>
      )}
    </>
  )
}
