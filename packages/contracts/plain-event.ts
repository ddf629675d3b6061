import { eventLimits, type SentEvent } from './event-fields.ts'
import type { PropertyType } from './event-row.ts'
import { type FlatProperties, propertyLimits } from './properties.ts'

/** JSON writes a character as at most six bytes, `\u001f`. */
const bytesPerCharacter = 6
/** Quotes, colon and comma around a name and its value, or the digits of a number. */
const bytesPerField = 40

/**
 * Reads an event that is plainly right, at a tenth of what the joi schema costs: known fields of the right type and
 * length, flat properties, well-formed text. Everything else, right or wrong, is undefined here and left to the schema,
 * which alone decides and words the error; a property test shows that the two never disagree.
 */
export function readPlainEvent(
  value: unknown,
  receivedAt: number,
): { sent: SentEvent; flat: FlatProperties; bytesAtMost: number } | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  let hasSite = false
  let hasType = false
  let characters = 0
  let fields = 0
  let flat: FlatProperties = noProperties

  for (const name of Object.keys(value)) {
    const field = (value as Record<string, unknown>)[name]
    fields++
    switch (name) {
      case 'site_id':
        if (!isPlainText(field, eventLimits.siteIdLengthMax)) return undefined
        hasSite = true
        characters += field.length
        break
      case 'event_type':
        if (!isPlainText(field, eventLimits.eventTypeLengthMax)) return undefined
        hasType = true
        characters += field.length
        break
      case 'timestamp':
        if (!isPlainTime(field, receivedAt)) return undefined
        break
      case 'session_id':
      case 'user_id':
      case 'anonymous_id':
      case 'event_id':
        // All four have the same limit.
        if (!isPlainText(field, eventLimits.eventIdLengthMax)) return undefined
        characters += field.length
        break
      case 'url':
      case 'referrer':
        if (!isPlainText(field, eventLimits.urlLengthMax)) return undefined
        characters += field.length
        break
      case 'country':
        if (typeof field !== 'string' || !/^[A-Z0-9]{2}$/.test(field)) return undefined
        break
      case 'device_type':
        if (field !== 'desktop' && field !== 'mobile' && field !== 'tablet') return undefined
        break
      case 'properties': {
        const read = readPlainProperties(field)
        if (!read) return undefined
        flat = read.flat
        fields += read.fields
        characters += read.characters
        break
      }
      default:
        return undefined
    }
  }
  if (!hasSite || !hasType) return undefined
  return { sent: value as SentEvent, flat, bytesAtMost: characters * bytesPerCharacter + fields * bytesPerField }
}

const noProperties: FlatProperties = { properties: undefined, types: undefined }

function readPlainProperties(value: unknown): { flat: FlatProperties; fields: number; characters: number } | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const names = Object.keys(value)
  if (names.length > propertyLimits.keysMax) return undefined
  let properties: Record<string, string> | undefined
  let types: Record<string, PropertyType> | undefined
  let characters = 0
  for (const name of names) {
    if (name === '__proto__' || !isPlainText(name, propertyLimits.keyLengthMax)) return undefined
    const item = (value as Record<string, unknown>)[name]
    let text: string
    if (typeof item === 'string') {
      if (item !== '' && !isPlainText(item, propertyLimits.stringLengthMax)) return undefined
      text = item
    } else if (typeof item === 'number' && Number.isFinite(item)) {
      text = String(item)
      ;(types ??= {})[name] = 'number'
    } else if (typeof item === 'boolean') {
      text = String(item)
      ;(types ??= {})[name] = 'boolean'
    } else return undefined
    ;(properties ??= {})[name] = text
    characters += name.length + text.length
  }
  return { flat: { properties, types }, fields: names.length, characters }
}

/** Not empty, not too long even in UTF-16 units, without NUL and without surrogates, paired or not. */
function isPlainText(value: unknown, lengthMax: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= lengthMax && !/[\0\ud800-\udfff]/.test(value)
}

function isPlainTime(value: unknown, receivedAt: number): boolean {
  return (
    Number.isInteger(value) &&
    (value as number) >= eventLimits.timestampMsMin &&
    (value as number) <= receivedAt + eventLimits.futureMsMax
  )
}
