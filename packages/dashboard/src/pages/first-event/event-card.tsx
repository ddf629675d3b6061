import type { StoredEvent } from '@sluice/contracts/stored-event'
import { formatDateSeconds } from '../../format/dates.ts'
import { jsonText } from '../../format/json.ts'
import { propertyLabel } from '../../format/sentences.ts'
import { useSite } from '../../state/session.tsx'
import { texts } from './messages.ts'

const times = ['timestamp', 'received_at']

/** An event with all its fields and properties, whose values have the types that they were sent with. */
export function EventCard({ event }: { event: StoredEvent }) {
  const { timezone } = useSite()
  const { properties = {}, ...fields } = event
  return (
    <table class="event-card">
      <caption class="hidden-text">{event.event_type}</caption>
      <thead class="hidden-text">
        <tr>
          <th scope="col">{texts.field}</th>
          <th scope="col">{texts.value}</th>
        </tr>
      </thead>
      <tbody>
        {Object.entries(fields).map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              {times.includes(name) && typeof value === 'number' ? (
                formatDateSeconds(value, timezone)
              ) : (
                <bdi>{String(value)}</bdi>
              )}
            </td>
          </tr>
        ))}
        {Object.entries(properties).map(([name, value]) => (
          <tr key={`properties.${name}`}>
            <th scope="row">
              <bdi>{propertyLabel(`properties.${name}`)}</bdi>
            </th>
            <td>
              <code>
                <bdi>{jsonText(value)}</bdi>
              </code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
