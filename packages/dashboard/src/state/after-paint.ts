/** The task that waits for the next paint. */
let waiting: (() => void) | undefined

function runWaiting(): void {
  const task = waiting
  waiting = undefined
  task?.()
}

// Before the next input is handled, the task of the previous one must have changed the page.
for (const type of ['pointerdown', 'keydown', 'popstate']) addEventListener(type, runWaiting, { capture: true })

/**
 * Runs a task after the next paint, so that the immediate response to an input is visible before the task begins. It runs
 * earlier when another input occurs, and at once while the page is hidden, because hidden pages are not painted.
 */
export function afterPaint(task: () => void): void {
  runWaiting()
  if (document.hidden) {
    task()
    return
  }
  waiting = task
  requestAnimationFrame(() => {
    setTimeout(() => {
      if (waiting === task) runWaiting()
    })
  })
}
