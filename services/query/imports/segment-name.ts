/** The blob of an import's n-th segment. The worker finds it by the segment's row. */
export function segmentName(importId: string, n: number): string {
  return `imports/${importId}/segments/${n}`
}
