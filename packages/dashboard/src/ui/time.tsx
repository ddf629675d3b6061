import { useEffect, useState } from 'preact/hooks'
import { serverNow } from '../api/client.ts'
import { formatBare, formatRelative, formatZoned, ownZone } from '../format/dates.ts'
import { formatDuration } from '../format/numbers.ts'

/** The server's time, Unix ms, which moves every `everyMs`. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(serverNow)
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return now
}

/** A moment as the distance from now, `3 minutes ago`; the tooltip has its date. */
export function Ago({ ms, zone = ownZone() }: { ms: number; zone?: string }) {
  const now = useNow(10_000)
  return (
    <time dateTime={new Date(ms).toISOString()} title={formatZoned(ms, zone)} class="nowrap">
      {formatRelative(ms, Math.max(now, serverNow()))}
    </time>
  )
}

/** How long it is until a moment, `6d 3h`, counting down. */
export function Until({ ms, zone = ownZone() }: { ms: number; zone?: string }) {
  const now = useNow()
  return (
    <time dateTime={new Date(ms).toISOString()} title={formatZoned(ms, zone)} class="nowrap">
      {formatDuration(Math.max(0, Math.floor((ms - now) / 1000)))}
    </time>
  )
}

/** Date, time and short name of the time zone; `isBare`: without the zone, when the column's header names it. */
export function At({ ms, zone = ownZone(), isBare = false }: { ms: number; zone?: string; isBare?: boolean }) {
  return (
    <time dateTime={new Date(ms).toISOString()} class="nowrap">
      {isBare ? formatBare(ms, zone) : formatZoned(ms, zone)}
    </time>
  )
}
