import { useEffect, useRef } from 'preact/hooks'
import { announce } from '../ui/announce.tsx'

/**
 * Has screen readers say the status of what was seen under way once it has ended: the page changes without a click.
 * `isUnderWay` is undefined while it is not known.
 */
export function useSpokenEnd(isUnderWay: boolean | undefined, status: string): void {
  const wasUnderWay = useRef(false)
  useEffect(() => {
    if (wasUnderWay.current && isUnderWay === false) announce(status)
    wasUnderWay.current = isUnderWay === true
  }, [isUnderWay])
}
