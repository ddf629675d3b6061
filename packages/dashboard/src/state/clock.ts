import { signal } from '@preact/signals'
import { serverNow } from '../api/client.ts'

const tickMs = 60_000

/**
 * The view's clock, Unix ms by the server's time: the end of ranges that reach now. It moves each minute while visible.
 */
export const clock = signal(0)

/** Moves the clock to now, for events that arrived since it moved last. */
export function moveClock(): void {
  clock.value = serverNow()
}

/** Starts the clock. Called once, after the first answer of the server has told its time. */
export function startClock(): void {
  if (clock.value !== 0) return
  clock.value = serverNow()
  const tick = () => {
    // The clock also moves back when the server's clock was set back.
    const isMoved = Math.abs(serverNow() - clock.value) >= tickMs
    if (document.visibilityState === 'visible' && isMoved) clock.value = serverNow()
  }
  setInterval(tick, 1_000)
  document.addEventListener('visibilitychange', tick)
}
