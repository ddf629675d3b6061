import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core'
import type { ComponentChildren } from 'preact'
import { useEffect, useReducer, useRef } from 'preact/hooks'

export interface VirtualRowsProps {
  /** Names the table. */
  label: string
  headers: readonly string[]
  /** Rows in all, loaded or not. */
  count: number
  /** The cells of a row; undefined while it is being loaded. */
  cells: (index: number) => readonly ComponentChildren[] | undefined
  /** Called with the rows that are on the screen. */
  onRange?: (first: number, last: number) => void
}

const overscan = 10

/** Three lines, and the padding; longer texts are cut, and whole in the tooltip. */
const rowHeight = 3 * 20 + 13

/** A table that draws only the rows on the screen, all of one height; for thousands. */
export function VirtualRows({ label, headers, count, cells, onRange }: VirtualRowsProps) {
  const viewport = useRef<HTMLDivElement>(null)
  const [, redraw] = useReducer((times: number) => times + 1, 0)
  const options = {
    count,
    overscan,
    estimateSize: () => rowHeight,
    getScrollElement: () => viewport.current,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(undefined),
  }
  const kept = useRef<Virtualizer<HTMLDivElement, HTMLDivElement>>()
  const virtualizer = (kept.current ??= new Virtualizer<HTMLDivElement, HTMLDivElement>(options))
  virtualizer.setOptions(options)
  useEffect(() => virtualizer._didMount(), [])
  useEffect(() => virtualizer._willUpdate())
  const items = virtualizer.getVirtualItems()
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0]
  useEffect(() => onRange?.(first, last), [first, last, count])
  return (
    <div ref={viewport} class="virtual" role="table" aria-label={label} aria-rowcount={count + 1} tabIndex={0}>
      <div class="virtual-head" role="row" aria-rowindex={1}>
        {headers.map((header) => (
          <span key={header} role="columnheader">
            {header}
          </span>
        ))}
      </div>
      <div role="rowgroup" class="virtual-body" style={{ blockSize: virtualizer.getTotalSize() }}>
        {items.map(({ index, start }) => (
          <div
            key={index}
            class="virtual-row"
            role="row"
            aria-rowindex={index + 2}
            style={{ transform: `translateY(${start}px)`, blockSize: rowHeight }}
          >
            {(cells(index) ?? headers.map(() => '…')).map((cell, at) => (
              <span key={at} role="cell">
                {cell}
              </span>
            ))}
          </div>
        ))}
      </div>
    </div>
  )
}
