import { sum } from '@sluice/runtime/sum'
import { safeText } from './safe-text.ts'

/** A column of a table in the terminal. */
export interface TableColumn {
  title: string
  /** Numbers stand at the right. */
  isNumber?: true
  /** The column is cut when the table is wider than the terminal. */
  isFlexible?: true
}

const gap = '  '
const flexibleWidthMin = 8

/**
 * Lines of a table: the titles, then the rows, whose cells may hold any text. In a terminal of `width` columns the
 * flexible columns are cut with `…`; elsewhere (`width` Infinity) nothing is.
 */
export function tableLines(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  width: number,
): string[] {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map((cell) => safeText(cell)))]
  const widths = columns.map((_column, at) => Math.max(...cells.map((row) => lengthOf(row[at] ?? ''))))
  const total = sum(widths) + gap.length * (columns.length - 1)
  let excess = total - width
  const flexible = columns.flatMap(({ isFlexible }, at) => (isFlexible ? [at] : []))
  // The widest column is shortened first, one character at a time, so that no column vanishes.
  while (excess > 0) {
    const widest = flexible.reduce(
      (best, at) => ((widths[at] ?? 0) > (widths[best] ?? 0) ? at : best),
      flexible[0] ?? -1,
    )
    if ((widths[widest] ?? 0) <= flexibleWidthMin) break
    widths[widest] = (widths[widest] ?? 0) - 1
    excess--
  }
  return cells.map((row) =>
    row
      .map((cell, at) => {
        const text = cut(cell, widths[at] ?? 0)
        const padding = ' '.repeat(Math.max(0, (widths[at] ?? 0) - lengthOf(text)))
        return columns[at]?.isNumber ? padding + text : text + padding
      })
      .join(gap)
      .trimEnd(),
  )
}

/** The text, or its beginning and `…` when it is longer than `width` characters. */
export function cut(text: string, width: number): string {
  return lengthOf(text) <= width
    ? text
    : `${Array.from(text)
        .slice(0, Math.max(0, width - 1))
        .join('')}…`
}

function lengthOf(text: string): number {
  return Array.from(text).length
}
