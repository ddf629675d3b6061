/** The part of JSON Schema that the OpenAPI document uses. */
interface Schema {
  $ref?: string
  type?: string | readonly string[]
  enum?: readonly unknown[]
  const?: unknown
  properties?: Readonly<Record<string, Schema>>
  required?: readonly string[]
  items?: Schema | boolean
  additionalProperties?: Schema | boolean
  oneOf?: readonly Schema[]
  anyOf?: readonly Schema[]
  allOf?: readonly Schema[]
}

interface Content {
  content?: Readonly<Record<string, { schema?: Schema }>>
  $ref?: string
}

interface Parameter {
  name: string
  in: string
  required?: boolean
  schema?: Schema
}

interface Operation {
  parameters?: readonly Parameter[]
  requestBody?: Content & { required?: boolean }
  responses?: Readonly<Record<string, Content>>
}

/** The part of an OpenAPI document that is compared. */
export interface Document {
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  /** What receivers get, which is compared as responses are. */
  webhooks?: Readonly<Record<string, { post: Operation }>>
  components?: {
    schemas?: Readonly<Record<string, Schema>>
    responses?: Readonly<Record<string, Content>>
  }
}

/** What a schema says about the value at one place; alternatives are joined. */
interface Field {
  types: Set<string>
  /** The only values; undefined: there are others. */
  values: Set<string> | undefined
  /** The value is there whenever the object around it is. */
  isRequired: boolean
}

/** A place in a value: `.data[].name`; the empty one is the value itself. */
type Fields = Map<string, Field>

/**
 * Returns a sentence for each change from `before` to `after` that can break a client: an operation, a response, a
 * delivery, or a field of one of these that is gone or may be missing, and a request that is refused now. Additions do
 * not break clients.
 */
export function breakingChanges(before: Document, after: Document): string[] {
  const changes: string[] = []
  for (const [path, methods] of Object.entries(before.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = `${method.toUpperCase()} ${path}`
      const now = after.paths[path]?.[method]
      if (now === undefined) changes.push(`${name} was removed`)
      else changes.push(...changesOf(operation, now, { before, after }).map((change) => `${name}: ${change}`))
    }
  }
  for (const [kind, { post }] of Object.entries(before.webhooks ?? {})) {
    const now = after.webhooks?.[kind]?.post
    if (now === undefined) changes.push(`delivery ${kind} was removed`)
    else changes.push(...deliveryChanges(post, now, { before, after }).map((change) => `delivery ${kind}: ${change}`))
  }
  return changes
}

interface Documents {
  before: Document
  after: Document
}

function changesOf(before: Operation, after: Operation, documents: Documents): string[] {
  return [
    ...parameterChanges(before.parameters ?? [], after.parameters ?? [], documents),
    ...bodyChanges(before.requestBody, after.requestBody, documents),
    ...responseChanges(before.responses ?? {}, after.responses ?? {}, documents),
  ]
}

function parameterChanges(before: readonly Parameter[], after: readonly Parameter[], documents: Documents): string[] {
  const find = (list: readonly Parameter[], wanted: Parameter) =>
    list.find((parameter) => parameter.name === wanted.name && parameter.in === wanted.in)
  const required = after
    .filter((parameter) => parameter.required === true && find(before, parameter)?.required !== true)
    .map(({ name }) => `parameter ${name} is required now`)
  const others = before.flatMap((parameter) => {
    const now = find(after, parameter)
    if (now === undefined) return [`parameter ${parameter.name} was removed`]
    return requestChanges(parameter.schema ?? {}, now.schema ?? {}, documents).map(
      (change) => `parameter ${parameter.name}${change}`,
    )
  })
  return [...required, ...others]
}

function bodyChanges(
  before: Operation['requestBody'],
  after: Operation['requestBody'],
  documents: Documents,
): string[] {
  if (before === undefined) return after?.required === true ? ['a body is required now'] : []
  const required = after?.required === true && before.required !== true ? ['the body is required now'] : []
  const others = Object.entries(before.content ?? {}).flatMap(([type, { schema }]) => {
    const now = after?.content?.[type]
    if (now === undefined) return [`a body of ${type} is refused now`]
    return requestChanges(schema ?? {}, now.schema ?? {}, documents).map((change) => `body${change}`)
  })
  return [...required, ...others]
}

/** Checks that every request of before is still accepted. */
function requestChanges(before: Schema, after: Schema, documents: Documents): string[] {
  const [old, now] = [fieldsOf(before, documents.before), fieldsOf(after, documents.after)]
  const changes: string[] = []
  for (const [place, field] of old) {
    const present = now.get(place)
    if (present === undefined) changes.push(`${place} was removed`)
    else {
      if (!covers(present.types, field.types)) changes.push(`${place} takes other types`)
      if (present.values !== undefined && !isWithin(field.values, present.values)) {
        changes.push(`${place} takes fewer values`)
      }
    }
  }
  for (const [place, field] of now) {
    // A required field of a new object does not affect clients, which do not send the object.
    if (place !== '' && field.isRequired && old.has(parentOf(place)) && old.get(place)?.isRequired !== true) {
      changes.push(`${place} is required now`)
    }
  }
  return changes
}

function responseChanges(
  before: NonNullable<Operation['responses']>,
  after: NonNullable<Operation['responses']>,
  documents: Documents,
): string[] {
  return Object.entries(before).flatMap(([status, response]) => {
    const now = after[status]
    // An error that does not occur any more breaks no client.
    if (now === undefined) return status.startsWith('2') ? [`response ${status} was removed`] : []
    return contentChanges(response, now, documents).map((change) => `response ${status}${change}`)
  })
}

function deliveryChanges(before: Operation, after: Operation, documents: Documents): string[] {
  const missing = (before.parameters ?? [])
    .filter(({ name, required }) => {
      const now = after.parameters?.find((parameter) => parameter.name === name)
      return now === undefined || (required === true && now.required !== true)
    })
    .map(({ name }) => `header ${name} may be missing now`)
  const body = contentChanges(before.requestBody ?? {}, after.requestBody ?? {}, documents)
  return [...missing, ...body.map((change) => `body${change}`)]
}

/** Checks that what clients are sent still has all of its forms and fields. */
function contentChanges(before: Content, after: Content, documents: Documents): string[] {
  const present = contentOf(after, documents.after)
  return Object.entries(contentOf(before, documents.before)).flatMap(([type, { schema }]) => {
    const media = present[type]
    if (media === undefined) return [` of ${type} was removed`]
    const [old, fields] = [fieldsOf(schema ?? {}, documents.before), fieldsOf(media.schema ?? {}, documents.after)]
    return [...old].flatMap(([place, field]) => fieldChanges(place, field, fields.get(place)))
  })
}

/** Checks that what clients are sent still contains everything on which a client may rely. */
function fieldChanges(place: string, before: Field, after: Field | undefined): string[] {
  if (after === undefined) return [`${place} was removed`]
  return [
    ...(before.isRequired && !after.isRequired ? [`${place} may be missing now`] : []),
    ...(covers(before.types, after.types) ? [] : [`${place} has other types`]),
  ]
}

function contentOf(response: Content, document: Document): NonNullable<Content['content']> {
  const name = response.$ref?.split('/').at(-1)
  return (name === undefined ? response : document.components?.responses?.[name])?.content ?? {}
}

/** Whether each of the types is one of `wide`. */
function covers(wide: ReadonlySet<string>, types: ReadonlySet<string>): boolean {
  return wide.has('any') || [...types].every((type) => wide.has(type) || (type === 'integer' && wide.has('number')))
}

/** Whether each of the values is one of `wide`; undefined: any value. */
function isWithin(values: ReadonlySet<string> | undefined, wide: ReadonlySet<string>): boolean {
  return values !== undefined && [...values].every((value) => wide.has(value))
}

function parentOf(place: string): string {
  return place.replace(/(?:\.[^.[\]]*|\[\])$/, '')
}

function fieldsOf(schema: Schema, document: Document): Fields {
  const fields: Fields = new Map()
  addFields(schema, '', true, [])
  return fields

  function addFields(part: Schema, place: string, isRequired: boolean, within: readonly string[]): void {
    if (part.$ref !== undefined) {
      // A condition may hold conditions.
      if (within.includes(part.$ref)) return
      const target = document.components?.schemas?.[part.$ref.split('/').at(-1) ?? ''] ?? {}
      addFields(target, place, isRequired, [...within, part.$ref])
      return
    }
    const alternatives = part.oneOf ?? part.anyOf
    if (alternatives !== undefined) {
      addAlternatives(alternatives, place, isRequired, within)
      if (part.properties === undefined) return
    }
    for (const each of part.allOf ?? []) addFields(each, place, isRequired, within)
    if (part.allOf === undefined && alternatives === undefined) join(place, leafOf(part, isRequired))
    for (const [name, property] of Object.entries(part.properties ?? {})) {
      addFields(property, `${place}.${name}`, part.required?.includes(name) === true, within)
    }
    if (typeof part.items === 'object') addFields(part.items, `${place}[]`, true, within)
    if (typeof part.additionalProperties === 'object') addFields(part.additionalProperties, `${place}.*`, false, within)
  }

  /** A field that one alternative lacks may be missing. */
  function addAlternatives(
    alternatives: readonly Schema[],
    place: string,
    isRequired: boolean,
    within: readonly string[],
  ): void {
    const before = new Map(fields)
    const found = alternatives.map((alternative) => {
      fields.clear()
      addFields(alternative, place, isRequired, within)
      return new Map(fields)
    })
    fields.clear()
    for (const [key, field] of before) fields.set(key, field)
    const withFields = found.filter((each) => [...each.keys()].some((key) => key.startsWith(`${place}.`)))
    for (const each of found) {
      for (const [key, field] of each) {
        const isEverywhere = withFields.every((other) => other.has(key))
        join(key, { ...field, isRequired: field.isRequired && isEverywhere })
      }
    }
  }

  function join(place: string, field: Field): void {
    const present = fields.get(place)
    if (present === undefined) {
      fields.set(place, field)
      return
    }
    fields.set(place, {
      types: new Set([...present.types, ...field.types]),
      values: present.values && field.values && new Set([...present.values, ...field.values]),
      isRequired: present.isRequired && field.isRequired,
    })
  }
}

function leafOf({ type, enum: values, const: value }: Schema, isRequired: boolean): Field {
  const types = type === undefined ? ['any'] : typeof type === 'string' ? [type] : type
  const only = values ?? (value === undefined ? undefined : [value])
  return { types: new Set(types), values: only && new Set(only.map((each) => JSON.stringify(each))), isRequired }
}
