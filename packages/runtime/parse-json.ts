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
  const pieces: string[] = []
  let end = 0
  let hasPlaceholders = false
  for (const found of escapedNames(text)) {
    const name = JSON.parse(text.slice(found.start, found.end)) as string
    const needsEscapes = JSON.stringify(name).length > name.length + 2
    hasPlaceholders ||= needsEscapes
    pieces.push(text.slice(end, found.start), `"${needsEscapes ? toPlaceholder(name) : name}"`)
    end = found.end
  }
  if (end === 0) return parse(text, reviver)
  const value = parse(pieces.join('') + text.slice(end), reviver)
  return hasPlaceholders ? restoreNames(value) : value
}

/** The reviver's source text costs time, so that JSON.parse gets no reviver where there is none. */
function parse(text: string, reviver: Reviver | undefined): unknown {
  return reviver === undefined ? JSON.parse(text) : JSON.parse(text, reviver)
}

/** A name of characters that JSON does not escape. Equal names have equal placeholders. */
const toPlaceholder = (name: string): string => placeholderPrefix + Buffer.from(name, 'utf16le').toString('hex')

const nameOf = (key: string): string =>
  key.startsWith(placeholderPrefix) ? Buffer.from(key.slice(placeholderPrefix.length), 'hex').toString('utf16le') : key

/** Replaces placeholders by their names. It does not recurse, because clients may send thousands of levels. */
function restoreNames(value: unknown): unknown {
  const root = { value }
  const containers: Record<string, unknown>[] = [root]
  for (let container = containers.pop(); container !== undefined; container = containers.pop()) {
    for (const [key, member] of Object.entries(container)) {
      if (typeof member !== 'object' || member === null || JSON.isRawJSON(member)) continue
      const restored = Array.isArray(member)
        ? member
        : Object.fromEntries(Object.entries(member).map(([name, each]) => [nameOf(name), each]))
      container[key] = restored
      containers.push(restored as Record<string, unknown>)
    }
  }
  return root.value
}

/**
 * Finds the names that have an escape: the positions of their first quotation mark and after their last one. In a text
 * that is not JSON it may find anything. It takes linear time.
 */
function* escapedNames(text: string): Generator<{ start: number; end: number }> {
  let at = text.indexOf('\\')
  while (at !== -1) {
    // A backslash is always within a string, and this is the first one of its string.
    const end = endOfString(text, at)
    if (isFollowedByColon(text, end)) yield { start: text.lastIndexOf('"', at), end }
    at = text.indexOf('\\', end)
  }
}

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
