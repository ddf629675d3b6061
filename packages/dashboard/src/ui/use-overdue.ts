import { useEffect, useState } from 'preact/hooks'

/**
 * Whether no answer has followed that of `answeredAt` (Unix ms, 0 before the first) for `ageMsMax` in which the page
 * was visible: a hidden page may not refetch.
 */
export function useOverdue(answeredAt: number, ageMsMax: number): boolean {
  const [overdueOf, setOverdueOf] = useState<number>()
  useEffect(() => {
    if (answeredAt === 0) return undefined
    let timer: ReturnType<typeof setTimeout>
    const start = (ms: number) => {
      clearTimeout(timer)
      if (!document.hidden) timer = setTimeout(() => setOverdueOf(answeredAt), ms)
    }
    start(answeredAt + ageMsMax - Date.now())
    const startAgain = () => start(ageMsMax)
    document.addEventListener('visibilitychange', startAgain)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', startAgain)
    }
  }, [answeredAt])
  return overdueOf === answeredAt
}
