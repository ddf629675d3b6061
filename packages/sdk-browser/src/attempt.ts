/**
 * Runs a function that may fail because of the browser, e.g. when storage is full or blocked; undefined when it fails.
 */
export function attempt<T>(run: () => T, onError?: (error: unknown) => void): T | undefined {
  try {
    return run()
  } catch (error) {
    onError?.(error)
  }
  return undefined
}
