import { signal } from '@preact/signals'
import { useLayoutEffect, useState } from 'preact/hooks'
import { Icon, type IconName } from './icon.tsx'
import { type SpokenPart, withPart } from './spoken-parts.ts'

/**
 * The regions that are rendered, of the page and then of the open dialogs. A modal dialog silences those before its
 * own.
 */
const regions: symbol[] = []
/** The last text, and the region that says it. */
const spoken = signal<{ text: string; region: symbol | undefined }>({ text: '', region: undefined })
/** What the last text consists of. */
let parts: SpokenPart[] = []
const shown = signal<{ text: string; icon: IconName; id: number } | undefined>(undefined)
let toasts = 0
const toastMs = 4_000

/**
 * Has screen readers say a text, politely: after the one before, when that came just now and has another topic. A
 * later text replaces an earlier one of the same topic, such as the points of a chart along which an arrow key moves. An
 * empty text clears all.
 */
export function announce(text: string, topic?: 'title' | 'point'): void {
  // A dialog that the same click closes is gone by then.
  setTimeout(() => {
    const region = regions.at(-1)
    const mayJoin = text !== '' && region === spoken.value.region
    parts = withPart(mayJoin ? parts : [], { text, topic, at: performance.now() })
    const all = parts.map((part) => part.text).join(' ')
    // Screen readers announce a live region only when its text changes; a trailing space makes a repeated text differ.
    spoken.value = { text: spoken.value.text === all ? `${all} ` : all, region }
  })
}

/**
 * Shows a short text for four seconds and has it spoken: what a click has done where nothing else shows it. The icon
 * is a tick where it has succeeded.
 */
export function toast(text: string, icon: IconName = 'check'): void {
  const id = ++toasts
  shown.value = { text, icon, id }
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

/**
 * A polite region. It says what is announced while no dialog is open above it, and nothing that another one has said.
 */
export function Announcer() {
  const [region] = useState(() => Symbol())
  // Before the timer of `announce`: what the same click announces belongs to the dialog that it opens.
  useLayoutEffect(() => {
    regions.push(region)
    return () => regions.splice(regions.indexOf(region), 1)
  }, [])
  return (
    <div class="hidden-text announcer" aria-live="polite">
      {spoken.value.region === region ? spoken.value.text : ''}
    </div>
  )
}

/** The region of the page and the place of toasts; the app renders it. */
export function Announcements() {
  return (
    <>
      <Announcer />
      {shown.value === undefined ? null : (
        <div
          class="toast"
          key={shown.value.id}
          popover="manual"
          ref={(element: HTMLElement | null) => {
            if (element?.matches(':popover-open') === false) element.showPopover()
          }}
        >
          <Icon name={shown.value.icon} />
          {shown.value.text}
        </div>
      )}
    </>
  )
}
