import { useEffect, useState } from 'preact/hooks'

/**
 * Whether no answer has followed that of `answeredAt` (Unix ms, 0 before the first) for `ageMsMax` in which the page
 * was visible: a page that nobody sees may not ask.
 */
export function useOverdue(answeredAt: number, ageMsMax: number): boolean {
  const [overdueOf, setOverdueOf] = useState<number>()
  useEffect(() => {
    if (answeredAt === 0) return undefined
    let timer: ReturnType<typeof setTimeout>
    const start = () => {
      clearTimeout(timer)
      if (!document.hidden) timer = setTimeout(() => setOverdueOf(answeredAt), ageMsMax)
    }
    start()
    document.addEventListener('visibilitychange', start)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', start)
    }
  }, [answeredAt])
  return overdueOf === answeredAt
}
