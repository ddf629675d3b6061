import { useEffect, useRef, useState } from 'preact/hooks'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { serverNow } from '../../api/client.ts'
import { useShortcut } from '../../app/shortcuts.tsx'
import { formatRecent, formatZoned } from '../../format/dates.ts'
import { eventKeyOf, shortUrl } from '../../format/events.ts'
import { valueLabel } from '../../format/sentences.ts'
import { EventFields } from '../../page-components/event-fields.tsx'
import { Button } from '../../ui/button.tsx'
import { Icon } from '../../ui/icon.tsx'
import { MoreMenu, type NumberSource } from '../../ui/more-menu.tsx'
import { texts } from './messages.ts'

function Row({
  event,
  zone,
  isOpen,
  onToggle,
}: {
  event: StoredEvent
  zone: string
  isOpen: boolean
  onToggle: () => void
}) {
  const cells = [
    event.event_type,
    shortUrl(event),
    event.country === undefined ? '' : valueLabel('country', event.country),
    event.device_type ?? '',
    event.user_id ?? event.anonymous_id ?? event.session_id ?? '',
  ]
  return (
    <li class={isOpen ? 'open' : undefined}>
      <button type="button" class="feed-row" aria-expanded={isOpen} onClick={onToggle}>
        <time class="muted" title={formatZoned(event.timestamp, zone)}>
          {formatRecent(event.timestamp, zone, serverNow())}
        </time>
        {cells.map((text, at) => (
          <span key={at} class="truncate">
            <bdi>{text}</bdi>
          </span>
        ))}
        <Icon name={isOpen ? 'chevron-down' : 'chevron-right'} size={14} />
      </button>
      {isOpen ? <EventFields event={event} zone={zone} /> : null}
    </li>
  )
}

/**
 * The latest events, the newest first. The list does not move while the pointer or the focus is in it, or Space paused
 * it.
 */
export function Feed({
  events,
  zone,
  sourceOf,
}: {
  events: readonly StoredEvent[]
  zone: string
  /** The copies and downloads of the listed events. */
  sourceOf: (listed: readonly StoredEvent[]) => NumberSource
}) {
  const [isStopped, setStopped] = useState(false)
  const [isHovered, setHovered] = useState(false)
  const [isFocused, setFocused] = useState(false)
  const [open, setOpen] = useState<string>()
  const isPaused = isStopped || isHovered || isFocused
  const held = useRef(events)
  useEffect(() => {
    if (!isPaused) held.current = events
  }, [events, isPaused])
  const shown = isPaused ? held.current : events
  const known = new Set(shown.map(eventKeyOf))
  const newer = events.filter((event) => !known.has(eventKeyOf(event))).length
  /** Ends each kind of pause: an opened row of a touch screen keeps the focus. */
  const toggle = () => {
    setStopped(!isPaused)
    setHovered(false)
    setFocused(false)
  }
  useShortcut(' ', texts.pauseKey, toggle)
  return (
    <section class="feed" aria-labelledby="feed-title">
      <header class="section-head">
        <h2 id="feed-title">{texts.feed}</h2>
        <span class="muted small grow">
          {isPaused ? (newer === 0 ? texts.paused : `${texts.paused}, ${texts.newer(newer)}`) : texts.running}
        </span>
        <Button
          kind="quiet"
          icon={isPaused ? 'play' : 'pause'}
          title={texts.hint}
          // Else the press takes the focus out of the list, and so ends the pause that the click is to end.
          onMouseDown={(event) => event.preventDefault()}
          onClick={toggle}
        >
          {isPaused ? texts.resume : texts.pause}
        </Button>
        <MoreMenu source={sourceOf(shown)} />
      </header>
      <ol
        class="feed-list"
        onPointerEnter={(event) => {
          // A tap leaves no pointer behind that could leave again.
          if (event.pointerType === 'mouse') setHovered(true)
        }}
        onPointerLeave={() => setHovered(false)}
        onFocusIn={() => setFocused(true)}
        onFocusOut={() => setFocused(false)}
      >
        {shown.map((event) => (
          <Row
            key={eventKeyOf(event)}
            event={event}
            zone={zone}
            isOpen={open === eventKeyOf(event)}
            onToggle={() => setOpen(open === eventKeyOf(event) ? undefined : eventKeyOf(event))}
          />
        ))}
      </ol>
    </section>
  )
}
