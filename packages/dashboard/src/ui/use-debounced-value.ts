import { useEffect, useState } from 'preact/hooks'

/** Delay after the last change before the value is used, in ms. */
const debounceMs = 400

/** Returns a value once it has not changed for 400 ms. Objects need a `key`: a text that is the same for equal ones. */
export function useDebouncedValue<T>(value: T, key: unknown = value): T {
  const [debounced, setDebounced] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setDebounced(value), debounceMs)
    return () => clearTimeout(timer)
  }, [key])
  return debounced
}
