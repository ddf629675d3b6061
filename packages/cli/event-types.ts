import type { StoredEvent } from '@sluice/contracts/stored-event'

/** The types that each property has among the events of one type, by its name. */
export type PropertyTypes = ReadonlyMap<string, ReadonlySet<string>>

/** An event type with the properties of its events. */
export interface EventTypeDescription {
  name: string
  properties: PropertyTypes
}

/** The types of the properties of some events. */
export function describeTypes(events: readonly StoredEvent[]): PropertyTypes {
  const types = new Map<string, Set<string>>()
  for (const { properties = {} } of events) {
    for (const [name, value] of Object.entries(properties)) {
      const known = types.get(name)
      if (known) known.add(typeOf(value))
      else types.set(name, new Set([typeOf(value)]))
    }
  }
  return types
}

/**
 * The source of a module that exports `Events`. Everything is sorted, so that a new run changes only what is different.
 */
export function writeEventTypes(siteId: string, events: readonly EventTypeDescription[]): string {
  const sorted = events.toSorted((a, b) => compare(a.name, b.name))
  return [
    `// The events of ${JSON.stringify(siteId)}, written by "sluice types".`,
    'export interface Events {',
    ...sorted.flatMap(({ name, properties }) => eventLines(name, properties)),
    '}',
    '',
  ].join('\n')
}

function eventLines(name: string, properties: PropertyTypes): string[] {
  if (properties.size === 0) return [`  ${memberName(name)}: Record<string, never>`]
  return [
    `  ${memberName(name)}: {`,
    ...[...properties]
      .toSorted(([a], [b]) => compare(a, b))
      .map(([property, types]) => `    ${memberName(property)}?: ${[...types].toSorted(compare).join(' | ')}`),
    '  }',
  ]
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) {
    const items = [...new Set(value.map(typeOf))].toSorted(compare)
    if (items.length === 0) return 'unknown[]'
    return items.length === 1 ? `${items[0] ?? 'unknown'}[]` : `(${items.join(' | ')})[]`
  }
  if (value === null) return 'null'
  if (JSON.isRawJSON(value)) return 'number'
  return ['number', 'boolean', 'string'].includes(typeof value) ? typeof value : 'object'
}

/** The name of a member, quoted if it is no identifier. */
function memberName(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name)
    ? name
    : JSON.stringify(name).replaceAll(/[\u007f-\u009f\u2028\u2029]/g, escape)
}

function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Compares texts by code units: the order must not depend on the language of a machine. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
