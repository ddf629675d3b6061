import { guardCell, quoteCell } from '@sluice/contracts/csv-cells'

/** A line of CSV. A text that spreadsheets would take for a formula gets a leading `'`, as in the exports of Sluice. */
export function csvLine(cells: readonly (string | number)[]): string {
  return cells.map((cell) => quoteCell(typeof cell === 'number' ? String(cell) : guardCell(cell))).join(',')
}
