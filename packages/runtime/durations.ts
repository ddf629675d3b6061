/** The ms of each unit of a duration. */
export const unitMs: Readonly<Record<'s' | 'm' | 'h' | 'd', number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** The ms of a duration `<n>s|m|h|d` (docs/http-interface.md#durations); undefined for other texts. */
export function durationMs(text: string): number | undefined {
  const match = /^(\d{1,9})([smhd])$/.exec(text)
  return match ? Number(match[1]) * unitMs[match[2] as keyof typeof unitMs] : undefined
}
