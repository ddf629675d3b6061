import { useState } from 'preact/hooks'
import { announce } from '../ui/announce.tsx'

interface Column {
  /** Names the column: its time. */
  label: string
  value: number
}

export interface ColumnsProps {
  /** Describes the whole for screen readers: what it counts, latest and highest. */
  caption: string
  columns: readonly Column[]
  /** Text of a column, for its tooltip and for speech: `14:05, 12 events`. */
  describe: (column: Column) => string
  /** Texts at both ends of the axis. */
  ends: readonly [string, string]
}

/** Columns from zero. A figure that takes focus; arrow keys move along the columns and speak them. */
export function Columns({ caption, columns, describe, ends }: ColumnsProps) {
  const [at, setAt] = useState<number>()
  const highest = Math.max(1, ...columns.map(({ value }) => value))
  const current = at === undefined ? undefined : columns[at]
  const move = (by: number) => {
    const next = Math.min(columns.length - 1, Math.max(0, (at ?? columns.length) + by))
    const column = columns[next]
    setAt(next)
    if (column !== undefined) announce(describe(column), 'point')
  }
  return (
    <figure
      class="columns"
      tabIndex={0}
      aria-label={caption}
      onKeyDown={(event) => {
        if (event.key === 'ArrowLeft') move(-1)
        else if (event.key === 'ArrowRight') move(1)
        else return
        event.preventDefault()
      }}
      onBlur={() => setAt(undefined)}
      onPointerLeave={() => setAt(undefined)}
    >
      <div class="columns-plot" role="img" aria-label={caption}>
        {columns.map((column, index) => (
          <span
            key={column.label}
            class={index === at ? 'column current' : 'column'}
            onPointerEnter={() => setAt(index)}
          >
            <span style={{ blockSize: `${(column.value / highest) * 100}%` }} />
          </span>
        ))}
      </div>
      <figcaption class="columns-axis label" aria-hidden="true">
        <span>{ends[0]}</span>
        <span class="columns-current">{current === undefined ? '' : describe(current)}</span>
        <span>{ends[1]}</span>
      </figcaption>
    </figure>
  )
}
