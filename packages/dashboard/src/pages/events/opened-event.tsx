import { useState } from 'preact/hooks'
import { eventsLimits } from '@sluice/contracts/events'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { useApi } from '../../api/hooks.ts'
import { eventKeyOf, parseEventKey } from '../../format/events.ts'
import { jsonText } from '../../format/json.ts'
import { EventFields } from '../../page-components/event-fields.tsx'
import { useView, useViewQueries } from '../../state/hooks.ts'
import { CopyButton } from '../../ui/copy.tsx'
import { Drawer } from '../../ui/dialog.tsx'
import { EmptyState, ErrorPanel, SkeletonRows } from '../../ui/states.tsx'
import { texts } from './messages.ts'

interface OpenedEventProps {
  /** The event's `eventKeyOf`. Give the component the same `key`: it keeps the event that it found first. */
  eventKey: string
  /** What the list holds when it is opened. */
  listed: readonly StoredEvent[]
  onClose: () => void
}

/**
 * All fields of an event. It stays when the list, which ends at the present, goes on without it; one that is not listed
 * is fetched.
 */
export function OpenedEvent({ eventKey, listed, onClose }: OpenedEventProps) {
  const { siteId } = useView()
  const { zone } = useViewQueries()
  const isOpened = (event: StoredEvent) => eventKeyOf(event) === eventKey
  const [known] = useState(() => listed.find(isOpened))
  const parsedKey = known === undefined ? parseEventKey(eventKey) : undefined
  const fetched = useApi(
    'events',
    parsedKey === undefined
      ? null
      : {
          query: {
            site_id: siteId,
            start_date: parsedKey.timestamp,
            end_date: parsedKey.timestamp + 1,
            environment: parsedKey.environment,
            limit: eventsLimits.limitMax,
          },
        },
  )
  const event = known ?? fetched.data?.events.find(isOpened)
  const isMissing = event === undefined && (parsedKey === undefined || fetched.data !== undefined)
  return (
    <Drawer
      title={texts.event}
      onClose={onClose}
      actions={
        event === undefined ? undefined : (
          <CopyButton text={jsonText(event, 2)} label={texts.copyJson} what={texts.json} />
        )
      }
    >
      <ErrorPanel error={fetched.error} onRetry={fetched.retry} />
      {fetched.isLoading ? <SkeletonRows rows={8} /> : null}
      {isMissing ? <EmptyState title={texts.missing} why={texts.missingWhy} /> : null}
      {event === undefined ? null : <EventFields event={event} zone={zone} />}
    </Drawer>
  )
}
