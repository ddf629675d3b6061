import type { PropertyType } from '@sluice/contracts/event-columns'
import { propertyLimits } from '@sluice/contracts/event-limits'
import { invalidField } from '@sluice/runtime/errors'
import type { JsonObject } from '@sluice/runtime/json-object'
import { holdsKey, redacted } from '@sluice/runtime/redact'
import { hasMoreCodePoints } from '@sluice/runtime/schemas'
import { jsonText } from './json-text.ts'

const { keysMax, keyLengthMax, stringLengthMax, depthMax } = propertyLimits

/** The object that contains a property. */
interface Place {
  /** Names of the surrounding objects, each followed by a dot. `jsonPrefix` is the same text with JSON's escapes. */
  prefix: string
  jsonPrefix: string
  /** Text before a name in error messages: an unknown field is named as the client sent it, a property by its path. */
  label: '' | 'properties.'
  /** Level of the object's values. The event is the first level. */
  depth: number
}

/** The event itself, whose unknown fields are properties. */
export const eventLevel: Place = { prefix: '', jsonPrefix: '', label: '', depth: 2 }
/** The object `properties` of the event. */
export const propertiesLevel: Place = { prefix: '', jsonPrefix: '', label: 'properties.', depth: 3 }

/**
 * Finds the names that need special treatment: JSON escapes or refuses a character, or the name contains a dot, which
 * joins names.
 */
// eslint-disable-next-line no-control-regex -- JSON escapes control characters
const specialInName = /[\0-\x1f".\\\ud800-\udfff]/

/**
 * The properties of one event as JSON. Nested objects are flattened with dots. Values become text: numbers, booleans
 * and arrays become their JSON (docs/http-interface.md#event-properties). `null` means absent. If a name occurs several
 * times, the last value is kept, so unknown fields are added before `properties`, which take precedence.
 */
export class EncodedProperties {
  /** Names and texts with JSON's escapes, without quotes. The type of a text is undefined. */
  private names: string[] = []
  private texts: string[] = []
  private types: (PropertyType | undefined)[] = []
  /**
   * Index of each name. It is set once repeated names were removed; from then on, a repeated name replaces its text
   * directly.
   */
  private places: Map<string, number> | undefined
  /** True when two names may be equal. The caller sets it when it adds the same name twice. */
  mayRepeat = false
  /** Upper bound of the characters in the event's compact JSON that are not in these properties. */
  omittedLength = 0

  /** Adds the fields of an object. Throws an AppError `invalid_field` that names the first bad property. */
  addAll(object: JsonObject, place: Place): void {
    for (const name in object) this.add(name, object[name], place)
  }

  /** Adds one field. Throws an AppError `invalid_field` that names the bad property. */
  add(name: string, value: unknown, place: Place): void {
    if (name === '')
      throw invalidField(labelOf(name, place).replace(/\.$/, '') || 'event', 'must not have an empty name')
    if (value === null || value === undefined) {
      this.omittedLength += name.length + 8
      return
    }
    if (place.prefix.length + name.length > keyLengthMax && hasMoreCodePoints(place.prefix + name, keyLengthMax)) {
      throw invalidField(labelOf(name, place), `has a name longer than ${keyLengthMax} characters`)
    }
    const jsonName = place.jsonPrefix + (specialInName.test(name) ? this.encodeSpecialName(name, place) : name)
    if (typeof value === 'string') this.push(jsonName, encodeText(value, name, place), undefined)
    else if (typeof value === 'number') this.push(jsonName, encodeNumber(value, name, place), 'number')
    else if (typeof value === 'boolean') this.push(jsonName, value ? 'true' : 'false', 'boolean')
    else if (Array.isArray(value)) this.push(jsonName, this.encodeItem(value, name, place, place.depth), 'array')
    else if (JSON.isRawJSON(value)) this.push(jsonName, encodeDigits(value.rawJSON, name, place), 'number')
    else this.addNested(name, jsonName, value as JsonObject, place)
  }

  /** The columns `properties` and `property_types` of the row, each after a comma; '' without properties. */
  toJson(): string {
    if (this.mayRepeat) this.removeRepeated()
    const { names, texts, types } = this
    if (names.length === 0) return ''
    // Few concatenations, because each of them costs as much as the copy of a short text.
    let json = ''
    let typesJson = ''
    for (let at = 0; at < names.length; at++) {
      const name = names[at] ?? ''
      json += (at === 0 ? ',"properties":{"' : '","') + name + '":"' + (texts[at] ?? '')
      const type = types[at]
      if (type !== undefined) typesJson += (typesJson === '' ? '"},"property_types":{"' : '","') + name + '":"' + type
    }
    return json + typesJson + '"}'
  }

  private addNested(name: string, jsonName: string, object: JsonObject, place: Place): void {
    checkDepth(name, place, place.depth)
    this.omittedLength += name.length + 8
    this.addAll(object, {
      prefix: `${place.prefix}${name.toWellFormed()}.`,
      jsonPrefix: `${jsonName}.`,
      label: place.label,
      depth: place.depth + 1,
    })
  }

  private push(jsonName: string, text: string, type: PropertyType | undefined): void {
    if (this.places !== undefined) {
      const at = this.places.get(jsonName)
      if (at !== undefined) {
        this.omit(at)
        this.texts[at] = text
        this.types[at] = type
        return
      }
      this.places.set(jsonName, this.names.length)
    }
    this.names.push(jsonName)
    this.texts.push(text)
    this.types.push(type)
    if (this.names.length <= keysMax) return
    if (this.mayRepeat) this.removeRepeated()
    if (this.names.length > keysMax) {
      throw invalidField('properties', `must not have more than ${keysMax} keys after flattening`)
    }
  }

  /** Keeps the last value of equal names, at the index of the first one. */
  private removeRepeated(): void {
    const { names, texts, types } = this
    // Repeated names were removed before, and none was added since.
    if (this.places !== undefined) return
    const places = new Map<string, number>()
    let kept = 0
    for (let at = 0; at < names.length; at++) {
      const name = names[at] ?? ''
      let to = places.get(name)
      if (to === undefined) {
        to = kept++
        places.set(name, to)
        names[to] = name
      } else this.omit(to)
      texts[to] = texts[at] ?? ''
      types[to] = types[at]
    }
    names.length = texts.length = types.length = kept
    this.places = places
  }

  /** Adds the length of a name and text that are replaced. */
  private omit(at: number): void {
    this.omittedLength += (this.names[at]?.length ?? 0) + (this.texts[at]?.length ?? 0) + 6
  }

  private encodeSpecialName(name: string, place: Place): string {
    const json = jsonText(name)
    if (json === undefined) {
      throw invalidField(place.label.slice(0, -1) || 'event', 'must not have NUL characters in names')
    }
    this.mayRepeat = true
    return json
  }

  /** JSON of an array, or of an item in it at `depth`, escaped for use inside a JSON string. */
  private encodeItem(item: unknown, name: string, place: Place, depth: number): string {
    if (typeof item === 'string') return quotedText(item, name, place)
    if (typeof item === 'number') return encodeNumber(item, name, place)
    if (typeof item !== 'object' || item === null) return String(item)
    if (JSON.isRawJSON(item)) return encodeDigits(item.rawJSON, name, place)
    checkDepth(name, place, depth)
    // Joined texts are flat strings. With concatenation, thousands of string objects would be kept until the log has
    // the event.
    if (Array.isArray(item)) {
      return `[${item.map((each) => this.encodeItem(each, name, place, depth + 1)).join(',')}]`
    }
    // Checked before anything is encoded. If each level encoded its content and then repeated that, the work would
    // double with every level.
    for (const key in item) {
      if (!key.isWellFormed()) return this.encodeIllFormed(item as JsonObject, name, place, depth)
    }
    const fields: string[] = []
    for (const key in item) {
      const jsonKey = quotedText(key, name, place)
      fields.push(`${jsonKey}:${this.encodeItem((item as JsonObject)[key], name, place, depth + 1)}`)
    }
    return `{${fields.join(',')}}`
  }

  /** JSON of an object in an array. Its keys may become equal when halves of surrogate pairs are replaced. */
  private encodeIllFormed(object: JsonObject, name: string, place: Place, depth: number): string {
    const fields = new Map<string, string>()
    for (const key in object) {
      const jsonKey = quotedText(key, name, place)
      fields.set(jsonKey, this.encodeItem(object[key], name, place, depth + 1))
    }
    return `{${[...fields].map(([jsonKey, value]) => `${jsonKey}:${value}`).join(',')}}`
  }
}

function encodeText(value: string, name: string, place: Place): string {
  if (value.length > stringLengthMax && hasMoreCodePoints(value, stringLengthMax)) {
    throw invalidField(labelOf(name, place), `exceeds maximum length of ${stringLengthMax}`)
  }
  return jsonText(value) ?? refuseNul(name, place)
}

/** A text inside JSON that is itself the content of a JSON string. */
function quotedText(text: string, name: string, place: Place): string {
  const json = jsonText(text) ?? refuseNul(name, place)
  return json === text ? `\\"${text}\\"` : JSON.stringify(`"${json}"`).slice(1, -1)
}

function refuseNul(name: string, place: Place): never {
  throw invalidField(labelOf(name, place), 'must not contain NUL characters')
}

function encodeNumber(value: number, name: string, place: Place): string {
  if (!Number.isFinite(value)) refuseInfinite(name, place)
  return String(value)
}

/** A number that was parsed with all digits (`parseExactly`). */
function encodeDigits(digits: string, name: string, place: Place): string {
  if (!Number.isFinite(Number(digits))) refuseInfinite(name, place)
  return digits
}

function refuseInfinite(name: string, place: Place): never {
  throw invalidField(labelOf(name, place), 'must be a finite number')
}

function checkDepth(name: string, place: Place, depth: number): void {
  if (depth > depthMax) throw invalidField(labelOf(name, place), `is nested deeper than ${depthMax} levels`)
}

/**
 * The name of a property in an error message, cut to the maximum length of a name. A name that contains a key is not
 * shown.
 */
function labelOf(name: string, { prefix, label }: Place): string {
  const path = prefix + name
  // slice() may split a surrogate pair.
  return label + (holdsKey(path) ? redacted : path.slice(0, keyLengthMax).toWellFormed())
}
