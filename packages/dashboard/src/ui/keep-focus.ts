/** Elements that can have the focus: those that Tab reaches, and titles that scripts focus. */
const focusable = ':is(a[href], button, input, select, textarea, summary, [tabindex]):not(:disabled)'

/**
 * When the element that has the focus is removed, such as the chip of a filter, the focus moves to the control that
 * takes its place, or else to the control before it. Browsers would give the focus to no element, and readers with a
 * keyboard or a screen reader would lose their place.
 */
export function keepFocus(): void {
  let focused: Element | undefined
  // A range stays where its element was when the element is removed.
  const place = new Range()
  addEventListener('focusin', ({ target }) => {
    focused = target as Element
    place.setStartBefore(focused)
    place.collapse(true)
  })
  addEventListener('focusout', () => {
    // Browsers may report a removal, too. An element that is still there afterwards was left by the reader.
    queueMicrotask(() => {
      if (focused?.isConnected === true && document.activeElement === document.body) focused = undefined
    })
  })
  new MutationObserver(() => {
    if (focused === undefined || focused.isConnected) return
    const isInDialog = focused.closest('dialog')?.isConnected === false
    focused = undefined
    // A dialog that closes gives the focus back to its opener, which may have been the page itself.
    if (!isInDialog && document.activeElement === document.body) next(place)?.focus({ preventScroll: true })
  }).observe(document.body, { childList: true, subtree: true })
}

/** The control after a place in the element that holds it, else the one before; the page as a whole if there is none. */
function next(place: Range): HTMLElement | null {
  const holder = place.startContainer as Element
  const around = holder.closest('dialog, main, .sticky-bar')
  const controls = [...(around?.querySelectorAll<HTMLElement>(focusable) ?? [])].filter(
    (each) => each.getClientRects().length > 0,
  )
  const isBefore = (each: Element) => place.comparePoint(each, 0) <= 0
  return (
    controls.find((each) => holder.contains(each) && !isBefore(each)) ??
    controls.findLast(isBefore) ??
    document.querySelector<HTMLElement>('#main')
  )
}
