/** The task that waits for the next paint. */
let waiting: { task: () => void } | undefined

function runWaiting(): void {
  const task = waiting?.task
  waiting = undefined
  task?.()
}

/** Keys that press the link or button that has the focus. */
const pressingKeys = ['Enter', ' ']

// A link or button that is pressed must be rendered with the result of the input before.
addEventListener('pointerdown', runWaiting, { capture: true })
addEventListener('popstate', runWaiting, { capture: true })
addEventListener(
  'keydown',
  ({ key }) => {
    if (pressingKeys.includes(key)) runWaiting()
  },
  { capture: true },
)

/**
 * Runs a task after the next paint, so that the immediate response to an input is visible before the task begins. It
 * replaces a task that waits, so a key that repeats costs one task. The task runs earlier when a link or button is
 * pressed, and at once while the page is hidden, because hidden pages are not painted.
 */
export function afterPaint(task: () => void): void {
  if (document.hidden) {
    waiting = undefined
    task()
    return
  }
  const added = { task }
  waiting = added
  requestAnimationFrame(() => {
    setTimeout(() => {
      if (waiting === added) runWaiting()
    })
  })
}
