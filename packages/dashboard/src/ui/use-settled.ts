import { useEffect, useState } from 'preact/hooks'

/** How long typing rests before something is asked for. */
const settleMs = 400

/** A value once it has not changed for 400 ms. Objects need a `key`: a text that is the same for equal ones. */
export function useSettled<T>(value: T, key: unknown = value): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), settleMs)
    return () => clearTimeout(timer)
  }, [key])
  return settled
}
