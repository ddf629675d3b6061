/** Clock differences up to this, in ms, are ignored, in addition to the duration of the request. */
const toleranceMs = 10_000

/** This machine's time, or Sluice's time once an answer has shown that this machine's clock is wrong. */
export interface ServerClock {
  /** Unix ms. */
  now(): number
  /** This machine's clock in Unix ms. Unlike a monotonic clock, it counts the time in which the machine slept. */
  wall: () => number
  /**
   * Compares the clocks when an answer with the time `serverMs` is read, whose request began at `beganMs` by `wall`.
   * Returns by how many ms this machine's clock is behind; negative when it is ahead, 0 when it is right. A difference
   * that the duration of the request may explain changes nothing.
   */
  learn(serverMs: number, beganMs: number): number
}

/** `wall` is this machine's clock in Unix ms; `monotonic` counts ms and is not affected by changes of the clock. */
export function serverClock(wall: () => number, monotonic: () => number): ServerClock {
  /** Sluice's Unix ms when `monotonic` was 0; undefined while this machine's clock is right. */
  let origin: number | undefined
  return {
    wall,
    now: () => Math.trunc(origin === undefined ? wall() : origin + monotonic()),
    learn: (serverMs, beganMs) => {
      const behindMs = serverMs - wall()
      const differsMs = Math.abs(behindMs) - toleranceMs
      if (differsMs <= 0) origin = undefined
      else if (differsMs > wall() - beganMs) origin = serverMs - monotonic()
      return origin === undefined ? 0 : behindMs
    },
  }
}
