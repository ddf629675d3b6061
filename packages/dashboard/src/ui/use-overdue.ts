import { useEffect, useState } from 'preact/hooks'

/** Whether the last answer, of `answeredAt` (Unix ms, 0 before the first), is older than `ageMsMax`. */
export function useOverdue(answeredAt: number, ageMsMax: number): boolean {
  const [overdueOf, setOverdueOf] = useState<number>()
  useEffect(() => {
    if (answeredAt === 0) return undefined
    const timer = setTimeout(() => setOverdueOf(answeredAt), answeredAt + ageMsMax - Date.now())
    return () => clearTimeout(timer)
  }, [answeredAt])
  return overdueOf === answeredAt
}
