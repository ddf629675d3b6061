/** Smaller differences of the clocks, in ms, are ignored: the answer may have taken as long. */
const toleranceMs = 10_000

/** This machine's time, or Sluice's time once an answer has shown that this machine's clock is wrong. */
export interface ServerClock {
  /** Unix ms. */
  now(): number
  /**
   * Compares the clocks when an answer with the time `serverMs` arrives. Returns by how many ms this machine's clock is
   * behind; negative when it is ahead, 0 when it is right.
   */
  learn(serverMs: number): number
}

/** `wall` is this machine's clock in Unix ms; `monotonic` counts ms and is not affected by changes of the clock. */
export function serverClock(wall: () => number, monotonic: () => number): ServerClock {
  /** Sluice's Unix ms when `monotonic` was 0; undefined while this machine's clock is right. */
  let origin: number | undefined
  return {
    now: () => Math.trunc(origin === undefined ? wall() : origin + monotonic()),
    learn: (serverMs) => {
      const behindMs = serverMs - wall()
      const isWrong = Math.abs(behindMs) > toleranceMs
      origin = isWrong ? serverMs - monotonic() : undefined
      return isWrong ? behindMs : 0
    },
  }
}
