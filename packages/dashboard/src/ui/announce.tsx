import { signal } from '@preact/signals'
import { useLayoutEffect, useState } from 'preact/hooks'
import { Icon } from './icon.tsx'

/**
 * The regions that are rendered, of the page and then of the open dialogs. A modal dialog silences those before its
 * own.
 */
const regions: symbol[] = []
/** The last text, and the region that says it. */
const spoken = signal<{ text: string; region: symbol | undefined }>({ text: '', region: undefined })
/** What the last text consists of, and when each part came, ms. */
let parts: { text: string; topic: string | undefined; at: number }[] = []
/** A screen reader has hardly begun with a text before this, and would drop it for the one that takes its place, ms. */
const joinedMs = 150
const shown = signal<{ text: string; id: number } | undefined>(undefined)
let toasts = 0
const toastMs = 4_000

/**
 * Has screen readers say a text, politely: after the one before, when that came just now and is of another topic. Of a
 * topic, only the latest text counts, as of the points of a chart along which a key moves. An empty text clears all.
 */
export function announce(text: string, topic?: 'title' | 'point'): void {
  // A dialog that the same click closes is gone by then.
  setTimeout(() => {
    const region = regions.at(-1)
    const at = performance.now()
    const mayJoin = text !== '' && region === spoken.value.region
    const isJoined = (part: (typeof parts)[number]) =>
      at - part.at < joinedMs && part.text !== text && (topic === undefined || part.topic !== topic)
    parts = [...(mayJoin ? parts.filter(isJoined) : []), { text, topic, at }]
    const all = parts.map((part) => part.text).join(' ')
    // The same text twice is spoken twice only when it differs.
    spoken.value = { text: spoken.value.text === all ? `${all} ` : all, region }
  })
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
          <Icon name="check" />
          {shown.value.text}
        </div>
      )}
    </>
  )
}
