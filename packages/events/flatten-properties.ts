import type { PropertyType } from '@sluice/contracts/event-columns'
import { propertyLimits } from '@sluice/contracts/event-limits'
import { invalidField } from '@sluice/runtime/errors'
import { exceeds } from '@sluice/runtime/validate'

export interface FlatProperties {
  /** Values as text by flattened name; undefined without properties. */
  properties: Record<string, string> | undefined
  /** Types of the values that are not strings; undefined if all values are strings. */
  types: Record<string, PropertyType> | undefined
}

/**
 * Flattens nested objects with dots and converts values to text: numbers, booleans and arrays to their JSON
 * (docs/http-interface.md#event-fields). `null` means absent. A property takes precedence over an unknown top-level
 * field of the same name, and the last one of several equal names over the others. Ill-formed UTF-16 becomes U+FFFD.
 * Throws an AppError `invalid_field` that names the property.
 */
export function flattenProperties(
  unknownFields: Record<string, unknown> | undefined,
  sent: Record<string, unknown> | undefined,
): FlatProperties {
  const flat: Flat = { values: new Map(), types: new Map() }
  // Error messages name an unknown field as the client sent it, and a property by its path.
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
    // slice() may split a surrogate pair.
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
  // The remaining type of JSON is an array.
  return [JSON.stringify(cleanItems(value, label, depth)), 'array']
}

/** Copies the items of an array with well-formed texts; copied objects have null prototypes. */
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

/** The record has a null prototype, so that `__proto__` is a plain key, which JSON.stringify writes like any other. */
function toRecord<V>(entries: ReadonlyMap<string, V>): Record<string, V> | undefined {
  if (entries.size === 0) return undefined
  const record = Object.create(null) as Record<string, V>
  for (const [name, value] of entries) record[name] = value
  return record
}
