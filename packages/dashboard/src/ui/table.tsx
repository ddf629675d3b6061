import type { ComponentChildren, TargetedMouseEvent } from 'preact'
import { useState } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { Icon } from './icon.tsx'

export interface Column<Row> {
  id: string
  header: string
  cell: (row: Row) => ComponentChildren
  /** The value by which the column is sorted; rows with undefined come last. A column without it can't be sorted. */
  sort?: (row: Row) => string | number | undefined
  /** Called when the table is sorted by the column, of which values may have to be fetched first. */
  onSort?: () => void
  /** Numbers stand at the end. */
  align?: 'end'
  /** The header is for screen readers only (a column of actions). */
  isHeaderHidden?: boolean
}

export interface DataTableProps<Row> {
  /** Names the table for screen readers. */
  caption: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  rowKey: (row: Row) => string
  /** Opens a row: its first cell becomes a button. */
  onOpen?: (row: Row, event: MouseEvent) => void
  /** The row that is open. */
  openKey?: string | undefined
  /** Whether a row is chosen: the button of its first cell is a toggle. */
  isChosen?: (row: Row) => boolean
  /** Shown instead of the table when there are no rows. */
  empty?: ComponentChildren
}

/** A click on any place of a row, where nothing else takes it and no text is selected, is one on the row's button. */
function openRow(event: TargetedMouseEvent<HTMLTableRowElement>): void {
  const { target, currentTarget } = event
  const taker = (target as Element).closest('a, button, input, label, select, summary, dialog, [popover]')
  // The table itself may be in a dialog.
  if (taker !== null && currentTarget.contains(taker)) return
  if (getSelection()?.isCollapsed === false) return
  const button = currentTarget.querySelector<HTMLElement>('.open-row')
  button?.focus()
  // With the same modifier keys.
  button?.dispatchEvent(new MouseEvent('click', event))
}

/** A table that sorts by its headers; on narrow screens each row becomes a block of labelled lines. */
export function DataTable<Row>({
  caption,
  columns,
  rows,
  rowKey,
  onOpen,
  openKey,
  isChosen,
  empty,
}: DataTableProps<Row>) {
  const [sorted, setSorted] = useState<{ id: string; isDown: boolean }>()
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>
  const by = columns.find((column) => column.id === sorted?.id)?.sort
  const shown =
    by === undefined ? rows : rows.toSorted((one, other) => compare(by(one), by(other), sorted?.isDown === true))
  return (
    <table class="table">
      <caption class="hidden-text">{caption}</caption>
      <thead>
        <tr data-label={messages.ui.sortBy}>
          {columns.map((column) => (
            <th
              key={column.id}
              scope="col"
              class={column.align}
              aria-sort={sorted?.id === column.id ? (sorted.isDown ? 'descending' : 'ascending') : undefined}
            >
              {column.sort === undefined ? (
                <span class={column.isHeaderHidden === true ? 'hidden-text' : undefined}>{column.header}</span>
              ) : (
                <button
                  type="button"
                  class="sort"
                  onClick={() => {
                    const known = rows.map((row) => column.sort?.(row)).find((value) => value !== undefined)
                    const isNumber = known === undefined ? column.align === 'end' : typeof known === 'number'
                    setSorted({ id: column.id, isDown: sorted?.id === column.id ? !sorted.isDown : isNumber })
                    column.onSort?.()
                  }}
                >
                  {column.header}
                  {sorted?.id === column.id ? (
                    <Icon name={sorted.isDown ? 'arrow-down' : 'arrow-up'} size={12} />
                  ) : null}
                </button>
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {shown.map((row) => (
          <tr
            key={rowKey(row)}
            class={openKey === rowKey(row) || isChosen?.(row) === true ? 'open' : undefined}
            {...(onOpen && { onClick: openRow })}
          >
            {columns.map((column, at) => (
              <td
                key={column.id}
                class={column.align}
                data-label={column.isHeaderHidden === true ? undefined : column.header}
              >
                {at === 0 && onOpen !== undefined ? (
                  <button
                    type="button"
                    class="open-row"
                    aria-pressed={isChosen?.(row)}
                    onClick={(event) => onOpen(row, event)}
                  >
                    {column.cell(row)}
                  </button>
                ) : (
                  column.cell(row)
                )}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

type Value = string | number | undefined

/** The order of two values. One that is not known comes last, in descending order too. */
function compare(one: Value, other: Value, isDown: boolean): number {
  if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined)
  const order =
    typeof one === 'number' && typeof other === 'number' ? one - other : String(one).localeCompare(String(other))
  return isDown ? -order : order
}
