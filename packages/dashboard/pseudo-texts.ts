const plain = 'abcdefghijklmnopqrstuvwxyz'
const accented = 'àƀçđéƒĝĥîĵķĺɱñöþɋŕšŧûṽŵẋýž'

/**
 * A text as a language that is two fifths longer than English has it: `Live` is `⟦Ĺîṽé··⟧`. The brackets show where a
 * text begins and ends, so what has none is not a text of the messages.
 */
function pseudoText(text: string): string {
  if (!/\p{L}/u.test(text)) return text
  const letters = text.replaceAll(/[a-z]/gi, (letter) => {
    const changed = accented.charAt(plain.indexOf(letter.toLowerCase()))
    return letter === letter.toLowerCase() ? changed : changed.toUpperCase()
  })
  return `⟦${letters}${'·'.repeat(Math.ceil(text.length * 0.4))}⟧`
}

/** The same texts in the pseudo-language: strings, what functions return, and all of these within objects and lists. */
export function pseudoTexts<T>(value: T): T {
  return transformed(value) as T
}

function transformed(value: unknown): unknown {
  if (typeof value === 'string') return pseudoText(value)
  if (typeof value === 'function') {
    return (...parts: unknown[]): unknown => transformed((value as (...parts: unknown[]) => unknown)(...parts))
  }
  if (Array.isArray(value)) return value.map(transformed)
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, transformed(each)]))
}
