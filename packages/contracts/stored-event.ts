import type { EventRow } from './event-columns.ts'

/** A stored event, without its empty fields; its properties have the types that they were sent with. */
export interface StoredEvent extends Omit<EventRow, 'properties' | 'property_types' | 'undated'> {
  properties?: Record<string, unknown>
}
