import { randomBytes } from 'node:crypto'

type Reviver = (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown

/** Begins the names that stand for names which JSON has to escape. No client can guess such a name. */
const placeholderPrefix = randomBytes(8).toString('hex')

/**
 * Parses JSON as JSON.parse does, but with the names that the text has. V8 compares the source of an escaped name with
 * the names that objects of the same shape had before, so that after `{"\\u":1}`, whose name is a backslash and a `u`,
 * the name of `{"\u00e9":1}` is read as `\u`, too (https://github.com/nodejs/node/issues/63785). One client could thus
 * rename the properties of all others. Escapes in names are therefore resolved before V8 reads them. Throws a
 * SyntaxError.
 */
export function parseJson(text: string, reviver?: Reviver): unknown {
  const replaced = replaceEscapedNames(text)
  if (replaced === undefined) return parse(text, reviver)
  // Throws for a text that is not JSON, which the one with replaced names may be.
  JSON.parse(text)
  const value = parse(replaced.text, reviver)
  return replaced.hasPlaceholders ? restoreNames(value) : value
}

/** The reviver's source text costs time, so that JSON.parse gets no reviver where there is none. */
function parse(text: string, reviver: Reviver | undefined): unknown {
  return reviver === undefined ? JSON.parse(text) : JSON.parse(text, reviver)
}

/**
 * The text with names that have no escapes, and whether some of them are placeholders; undefined if no name has an
 * escape. The result for a text that is not JSON may be any text. Takes linear time.
 */
function replaceEscapedNames(text: string): { text: string; hasPlaceholders: boolean } | undefined {
  const pieces: string[] = []
  /** By the name as it stands in the text: a batch repeats the names of its events. */
  const replacements = new Map<string, string>()
  let hasPlaceholders = false
  let copied = 0
  let at = text.indexOf('\\')
  while (at !== -1) {
    // A backslash is always within a string, and this is the first one of its string.
    const end = endOfString(text, at)
    if (isFollowedByColon(text, end)) {
      const start = text.lastIndexOf('"', at)
      const source = text.slice(start, end)
      const replacement = replacements.get(source) ?? withoutEscapes(source)
      replacements.set(source, replacement)
      hasPlaceholders ||= replacement.startsWith(placeholderPrefix, 1)
      pieces.push(text.slice(copied, start), replacement)
      copied = end
    }
    at = text.indexOf('\\', end)
  }
  return copied === 0 ? undefined : { text: pieces.join('') + text.slice(copied), hasPlaceholders }
}

/** The JSON of a name without escapes: that of a placeholder if the name has characters that JSON has to escape. */
function withoutEscapes(source: string): string {
  const name = JSON.parse(source) as string
  const needsEscapes = JSON.stringify(name).length > name.length + 2
  return `"${needsEscapes ? placeholderPrefix + Buffer.from(name, 'utf16le').toString('hex') : name}"`
}

/** Replaces placeholders by their names. It does not recurse, because clients may send thousands of levels. */
function restoreNames(value: unknown): unknown {
  const root = [value]
  const containers: unknown[] = [root]
  for (let container = containers.pop(); container !== undefined; container = containers.pop()) {
    const members = container as Record<string, unknown>
    for (const key of Array.isArray(container) ? container.keys() : Object.keys(members)) {
      const member = members[key]
      if (typeof member !== 'object' || member === null || JSON.isRawJSON(member)) continue
      const restored = Array.isArray(member) ? member : restoreOwnNames(member as Record<string, unknown>)
      members[key] = restored
      containers.push(restored)
    }
  }
  return root[0]
}

function restoreOwnNames(object: Record<string, unknown>): Record<string, unknown> {
  if (!Object.keys(object).some((key) => key.startsWith(placeholderPrefix))) return object
  return Object.fromEntries(Object.entries(object).map(([key, member]) => [nameOf(key), member]))
}

const nameOf = (key: string): string =>
  key.startsWith(placeholderPrefix) ? Buffer.from(key.slice(placeholderPrefix.length), 'hex').toString('utf16le') : key

/** The position after the string that includes position `at`. */
function endOfString(text: string, at: number): number {
  for (let position = at; position < text.length; position++) {
    const character = text[position]
    if (character === '"') return position + 1
    if (character === '\\') position++
  }
  return text.length
}

function isFollowedByColon(text: string, at: number): boolean {
  let position = at
  while (' \t\r\n'.includes(text[position] ?? '-')) position++
  return text[position] === ':'
}
