import { useContext, useEffect, useState } from 'preact/hooks'
import { serverNow } from '../api/client.ts'
import { formatBare, formatRelative, formatZoned, ownZone } from '../format/dates.ts'
import { formatDuration } from '../format/numbers.ts'
import { SiteContext } from '../state/session.tsx'

/** The server's time, Unix ms, which moves every `everyMs`. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(serverNow)
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return now
}

/** The time zone of the page's site; the browser's on pages without one. */
const usePageZone = (): string => useContext(SiteContext)?.timezone ?? ownZone()

/** A moment as the distance from now, `3 minutes ago`; the tooltip has its date. */
export function Ago({ ms, zone }: { ms: number; zone?: string }) {
  const pageZone = usePageZone()
  const now = useNow(10_000)
  return (
    <time dateTime={new Date(ms).toISOString()} title={formatZoned(ms, zone ?? pageZone)} class="nowrap">
      {formatRelative(ms, Math.max(now, serverNow()))}
    </time>
  )
}

/** How long it is until a moment, `6d 3h`, counting down. */
export function Until({ ms }: { ms: number }) {
  const zone = usePageZone()
  const now = useNow()
  return (
    <time dateTime={new Date(ms).toISOString()} title={formatZoned(ms, zone)} class="nowrap">
      {formatDuration(Math.max(0, Math.floor((ms - now) / 1000)))}
    </time>
  )
}

/** Date, time and short name of the time zone; `isBare`: without the zone, when the column's header names it. */
export function At({ ms, isBare = false }: { ms: number; isBare?: boolean }) {
  const zone = usePageZone()
  return (
    <time dateTime={new Date(ms).toISOString()} class="nowrap">
      {isBare ? formatBare(ms, zone) : formatZoned(ms, zone)}
    </time>
  )
}
