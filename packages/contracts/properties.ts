import { invalidField } from './errors.ts'
import type { PropertyType } from './event-row.ts'
import { exceeds } from './validate.ts'

/** Limits of `properties` (contract section 3); keys are counted after flattening. */
export const propertyLimits = {
  keysMax: 100,
  keyLengthMax: 128,
  stringLengthMax: 2_048,
  /** Nesting of the whole event: the event is the first level, `properties` the second. */
  depthMax: 32,
} as const

export interface FlatProperties {
  /** Every value as text; undefined when there is none. */
  properties: Record<string, string> | undefined
  /** The types of those that are no strings; undefined when all are. */
  types: Record<string, PropertyType> | undefined
}

/**
 * Flattens nested objects with dots and turns values into text: numbers and booleans as JSON writes them, arrays as
 * their JSON text. `null` is absent. A property wins over an unknown top-level field of its name; among equal names
 * the last wins. Ill-formed UTF-16 becomes U+FFFD.
 * Throws SluiceError 400 that names the property.
 */
export function flattenProperties(
  unknownFields: Record<string, unknown> | undefined,
  sent: Record<string, unknown> | undefined,
): FlatProperties {
  const flat: Flat = { values: new Map(), types: new Map() }
  // In error messages an unknown field is named as it was sent, a property by its path.
  if (unknownFields) flatten(flat, unknownFields, { prefix: '', label: '', depth: 2 })
  if (sent) flatten(flat, sent, { prefix: '', label: 'properties.', depth: 3 })
  return { properties: toRecord(flat.values), types: toRecord(flat.types) }
}

interface Flat {
  values: Map<string, string>
  types: Map<string, PropertyType>
}

function flatten(
  flat: Flat,
  object: Record<string, unknown>,
  at: { prefix: string; label: string; depth: number },
): void {
  for (const key of Object.keys(object)) {
    const value = object[key]
    const name = at.prefix + key.toWellFormed()
    // A cut may part a surrogate pair.
    const label = at.label + name.slice(0, propertyLimits.keyLengthMax).toWellFormed()
    if (key === '') throw invalidField(label.slice(0, -1) || 'event', 'must not have an empty name')
    if (value === null) continue
    if (exceeds(name, propertyLimits.keyLengthMax)) {
      throw invalidField(label, `has a name longer than ${propertyLimits.keyLengthMax}`)
    }
    if (name.includes('\0')) {
      throw invalidField(at.label.slice(0, -1) || 'event', 'must not have NUL characters in names')
    }

    if (typeof value === 'object' && !Array.isArray(value)) {
      checkDepth(label, at.depth)
      flatten(flat, value as Record<string, unknown>, { prefix: `${name}.`, label: at.label, depth: at.depth + 1 })
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
    if (exceeds(value, propertyLimits.stringLengthMax)) {
      throw invalidField(label, `exceeds maximum length of ${propertyLimits.stringLengthMax}`)
    }
    return [cleanText(value, label), undefined]
  }
  if (typeof value === 'number') return [String(finite(value, label)), 'number']
  if (typeof value === 'boolean') return [String(value), 'boolean']
  // JSON knows nothing else: an array.
  return [JSON.stringify(cleanItems(value, label, depth)), 'array']
}

/** A copy of an array's content whose texts are well-formed; objects in it get null prototypes. */
function cleanItems(value: unknown, label: string, depth: number): unknown {
  if (typeof value === 'string') return cleanText(value, label)
  if (typeof value === 'number') return finite(value, label)
  if (typeof value !== 'object' || value === null) return value
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

/** A null prototype, so that `__proto__` is a plain key; JSON.stringify writes it like any other. */
function toRecord<V>(entries: ReadonlyMap<string, V>): Record<string, V> | undefined {
  if (entries.size === 0) return undefined
  const record = Object.create(null) as Record<string, V>
  for (const [name, value] of entries) record[name] = value
  return record
}
