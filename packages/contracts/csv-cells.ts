/** Characters with which spreadsheets begin a formula, or that they skip before one. */
const formula = /^[=+\-@\t\r]/
const quotedFormula = /^'+[=+\-@\t\r]/
const plainNumber = /^[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/

/**
 * A cell as exports write it to CSV: `'` goes before a cell that a spreadsheet would run as a formula. Plain numbers
 * stay as they are. A cell that starts with `'`s followed by such a character gets one more, so that `unguardCell`
 * restores every cell.
 */
export function guardCell(cell: string): string {
  const isGuarded = formula.test(cell) ? !plainNumber.test(cell) : quotedFormula.test(cell)
  return isGuarded ? `'${cell}` : cell
}

/** Inverse of `guardCell`: the cell without the `'` that an export put before it. */
export function unguardCell(cell: string): string {
  return cell.startsWith("'") && quotedFormula.test(cell) ? cell.slice(1) : cell
}

/** A cell as a file of CSV has it (RFC 4180): in quotes when it has a comma, a quote or the end of a line. */
export function quoteCell(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
