import { useEffect } from 'preact/hooks'

/** While `isActive`, the browser asks before the page is left or reloaded: something would be lost. */
export function useUnloadGuard(isActive: boolean): void {
  useEffect(() => {
    if (!isActive) return undefined
    const ask = (event: BeforeUnloadEvent) => {
      event.preventDefault()
    }
    addEventListener('beforeunload', ask)
    return () => {
      removeEventListener('beforeunload', ask)
    }
  }, [isActive])
}
