import type { EventInput, PropertyType } from '@sluice/contracts/event-columns'
import { propertyLimits } from '@sluice/contracts/event-limits'
import { eventSchema } from '@sluice/events/event-schema'
import { invalidField, invalidFormat } from '@sluice/runtime/errors'
import { hasMoreCodePoints } from '@sluice/runtime/schemas'
import { validate } from '@sluice/runtime/validate'

/** Ids of events without one, so that lines can be compared. */
export const newId = '<new id>'

interface Properties {
  values: Map<string, string>
  types: Map<string, PropertyType>
}

/**
 * The line of an event in the log by the rules of docs/http-interface.md#event-fields, computed in a simple way: with
 * the joi schema for the known fields, maps for properties, and JSON.stringify for texts. Throws the AppError of a bad
 * event.
 */
export function expectedLine(value: unknown, { receivedAt }: { receivedAt: number }): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || JSON.isRawJSON(value)) {
    throw invalidFormat('an event must be a JSON object')
  }
  const entries = Object.entries(value)
  const known = Object.fromEntries(
    entries
      .filter(([name]) => knownNames.has(name))
      .map(([name, field]) => [name, JSON.isRawJSON(field) ? Number(field.rawJSON) : field]),
  )
  const sent = validate(eventSchema, known, { receivedAt })

  const properties: Properties = { values: new Map(), types: new Map() }
  const unknown = entries.filter(([name]) => !knownNames.has(name))
  flatten(properties, unknown, { prefix: '', label: '', depth: 2 })
  flatten(properties, Object.entries(sent.properties ?? {}), { prefix: '', label: 'properties.', depth: 3 })

  const fields: [name: string, json: string][] = [
    ['environment', '"prod"'],
    ['received_at', String(receivedAt)],
  ]
  for (const name of Object.keys(known) as (keyof EventInput)[]) {
    const field = sent[name]
    if (field === undefined || name === 'properties') continue
    if (name === 'country') fields.push([name, JSON.stringify((field as string).toUpperCase())])
    else if (name === 'device_type') fields.push([name, JSON.stringify((field as string).toLowerCase())])
    else fields.push([name, JSON.stringify(field)])
  }
  if (sent.timestamp === undefined) fields.push(['timestamp', String(receivedAt)])
  if (sent.event_id === undefined) fields.push(['event_id', JSON.stringify(newId)])
  if (sent.timestamp === undefined && sent.event_id !== undefined) fields.push(['undated', '1'])
  if (properties.values.size > 0) fields.push(['properties', jsonOf([...properties.values])])
  const types = [...properties.values.keys()].flatMap((name): [string, string][] => {
    const type = properties.types.get(name)
    return type === undefined ? [] : [[name, type]]
  })
  if (types.length > 0) fields.push(['property_types', jsonOf(types)])
  return `{${fields.map(([name, json]) => `"${name}":${json}`).join(',')}}\n`
}

const knownNames: ReadonlySet<string> = new Set(Object.keys(eventSchema.describe().keys as object))

function jsonOf(texts: readonly [name: string, text: string][]): string {
  return `{${texts.map(([name, text]) => `${JSON.stringify(name)}:${JSON.stringify(text)}`).join(',')}}`
}

interface Place {
  prefix: string
  /** Error messages name an unknown field as the client sent it, and a property by its path. */
  label: string
  depth: number
}

function flatten(flat: Properties, entries: readonly [string, unknown][], at: Place): void {
  for (const [key, value] of entries) {
    const name = at.prefix + key.toWellFormed()
    const label = at.label + name.slice(0, propertyLimits.keyLengthMax).toWellFormed()
    if (key === '') throw invalidField(label.slice(0, -1) || 'event', 'must not have an empty name')
    if (value === null) continue
    if (hasMoreCodePoints(name, propertyLimits.keyLengthMax)) {
      throw invalidField(label, `has a name longer than ${propertyLimits.keyLengthMax} characters`)
    }
    if (name.includes('\0')) {
      throw invalidField(at.label.slice(0, -1) || 'event', 'must not have NUL characters in names')
    }
    if (typeof value === 'object' && !Array.isArray(value) && !JSON.isRawJSON(value)) {
      checkDepth(label, at.depth)
      flatten(flat, Object.entries(value), { prefix: `${name}.`, label: at.label, depth: at.depth + 1 })
      continue
    }
    const [text, type] = toText(value, label, at.depth)
    flat.values.set(name, text)
    if (type === undefined) flat.types.delete(name)
    else flat.types.set(name, type)
    if (flat.values.size > propertyLimits.keysMax) {
      throw invalidField('properties', `must not have more than ${propertyLimits.keysMax} keys after flattening`)
    }
  }
}

function toText(value: unknown, label: string, depth: number): [text: string, type: PropertyType | undefined] {
  if (typeof value === 'string') {
    if (hasMoreCodePoints(value, propertyLimits.stringLengthMax)) {
      throw invalidField(label, `exceeds maximum length of ${propertyLimits.stringLengthMax}`)
    }
    return [cleanText(value, label), undefined]
  }
  if (typeof value === 'number') return [String(finite(value, label)), 'number']
  if (typeof value === 'boolean') return [String(value), 'boolean']
  if (JSON.isRawJSON(value)) return [value.rawJSON, 'number']
  return [JSON.stringify(cleanItems(value, label, depth)), 'array']
}

/** Copies the items of an array with well-formed texts; copied objects have null prototypes. */
function cleanItems(value: unknown, label: string, depth: number): unknown {
  if (typeof value === 'string') return cleanText(value, label)
  if (typeof value === 'number') return finite(value, label)
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value
  checkDepth(label, depth)
  if (Array.isArray(value)) return value.map((item) => cleanItems(item, label, depth + 1))
  const copy = Object.create(null) as Record<string, unknown>
  for (const [key, item] of Object.entries(value)) copy[cleanText(key, label)] = cleanItems(item, label, depth + 1)
  return copy
}

function cleanText(value: string, label: string): string {
  if (value.includes('\0')) throw invalidField(label, 'must not contain NUL characters')
  return value.toWellFormed()
}

function finite(value: number, label: string): number {
  if (!Number.isFinite(value)) throw invalidField(label, 'must be a finite number')
  return value
}

function checkDepth(label: string, depth: number): void {
  if (depth > propertyLimits.depthMax) {
    throw invalidField(label, `is nested deeper than ${propertyLimits.depthMax} levels`)
  }
}
