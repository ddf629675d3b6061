import type { StoredEvent } from '@sluice/contracts/stored-event'
import { fieldsOf, linkOf, type ShownField } from '../format/events.ts'
import { valueLabel } from '../format/sentences.ts'
import { messages } from '../messages/en.ts'
import { Icon } from '../ui/icon.tsx'
import { FilterValue } from './filter-value.tsx'

function Value({ field }: { field: ShownField }) {
  const { name, value, kind, isFilter } = field
  const link = name === 'url' || name === 'referrer' ? linkOf(value) : undefined
  const text = kind === 'text' ? <bdi>{valueLabel(name, value)}</bdi> : <code>{value}</code>
  return (
    <dd>
      {isFilter ? (
        <FilterValue property={name} value={value}>
          {text}
        </FilterValue>
      ) : (
        <span>{text}</span>
      )}
      {kind === 'number' || kind === 'boolean' ? <span class="label">{messages.events.kinds[kind]}</span> : null}
      {link === undefined ? null : (
        <a href={link} target="_blank" rel="noopener noreferrer" aria-label={messages.events.openLink(value)}>
          <Icon name="external-link" size={14} />
        </a>
      )}
    </dd>
  )
}

/** All fields and properties of an event, with the types that they were sent with; values filter the view. */
export function EventFields({ event, zone }: { event: StoredEvent; zone: string }) {
  return (
    <dl class="event-fields">
      {fieldsOf(event, zone).map((field) => (
        <div key={field.name}>
          <dt>
            <bdi>{field.name}</bdi>
          </dt>
          <Value field={field} />
        </div>
      ))}
    </dl>
  )
}
