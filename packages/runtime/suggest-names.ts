/** A word of this length may have two typing errors in it. */
const longWord = 8

/** The names that `word` was meant to be: those that begin with it, else those that are a typing error away. */
export function suggestNames(word: string, names: readonly string[]): string[] {
  const begun = names.filter((name) => word.length > 2 && name.startsWith(word))
  if (begun.length > 0) return begun
  const errorsMax = word.length < longWord ? 1 : 2
  return names.filter((name) => name.length > 2 && typingErrors(word, name) <= errorsMax)
}

/** Letters that are missing, too many, wrong, or in the place of their neighbour (the edit distance). */
function typingErrors(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_row, i) => [i])
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Infinity
  for (let j = 1; j <= b.length; j++) rows[0]?.push(j)
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      rows[i]?.push(
        Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1),
          isSwapped ? at(i - 2, j - 2) + 1 : Infinity,
        ),
      )
    }
  }
  return at(a.length, b.length)
}
