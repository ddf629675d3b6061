const tickMs = 10
/** Maximum time that counts for one tick. If a tick takes longer, the process could not run in the remaining time. */
const countedMsMax = 50

/**
 * Measures the time in which this process could run, without the time in which other processes had the CPU, so that a
 * test of a time limit does not fail on a busy machine. Returns a function that stops the measurement and returns the
 * time in ms. Not for work that keeps the event loop busy, which looks as if the process could not run.
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
 * Measures the processor time of this process, for work that keeps the event loop busy. Returns a function that returns
 * the time so far in ms.
 */
export function startCpuStopwatch(): () => number {
  const start = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  }
}
