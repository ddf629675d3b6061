import { expect, test } from '@jest/globals'
import type { PropertyType } from '@sluice/contracts/event-columns'
import { toStoredEvent } from './stored-event.ts'

test('properties that are named as members of every object are texts like others, or have their own types', () => {
  const row = (types: string) => ({
    event_id: 'e',
    site_id: 's',
    event_type: 'view',
    timestamp_ms: 1,
    received_at_ms: 2,
    environment: 'prod' as const,
    session_id: '',
    user_id: '',
    anonymous_id: '',
    url: '',
    referrer: '',
    country: '',
    device_type: '',
    properties: JSON.parse('{"__proto__":"p","constructor":"7","plan":"pro"}') as Record<string, string>,
    property_types: JSON.parse(types) as Record<string, PropertyType>,
  })
  const json = (types: string): string => JSON.stringify(toStoredEvent(row(types)).properties)
  expect(json('{}')).toBe('{"__proto__":"p","constructor":"7","plan":"pro"}')
  expect(json('{"constructor":"number"}')).toBe('{"__proto__":"p","constructor":7,"plan":"pro"}')
})
