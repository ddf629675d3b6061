const tickMs = 10
/** What one tick counts at most: the rest of its time, this process could not run. */
const countedMsMax = 50

/**
 * Measures the time in which this process could run, so that a promise in time is judged without the stalls of a
 * machine that others use, too. Returns a function that stops the measurement and gives the time in ms. Not for work
 * that keeps the event loop busy, which looks like a stall.
 */
export function startStopwatch(): () => number {
  let totalMs = 0
  let last = performance.now()
  const count = (): void => {
    const now = performance.now()
    totalMs += Math.min(now - last, countedMsMax)
    last = now
  }
  const timer = setInterval(count, tickMs).unref()
  return () => {
    clearInterval(timer)
    count()
    return totalMs
  }
}

/**
 * Measures the processor time of this process, for work that keeps the event loop busy. Returns a function that gives
 * the time so far in ms.
 */
export function startCpuStopwatch(): () => number {
  const start = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  }
}
