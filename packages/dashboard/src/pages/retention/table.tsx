import type { Actor } from '@sluice/contracts/actors'
import type { CompletableRow, RetentionMatrix, RetentionRow } from '@sluice/contracts/retention'
import { formatDate } from '../../format/dates.ts'
import { Num } from '../../ui/numbers.tsx'
import { heatOf, isTinted, tintedRange } from './matrix.ts'
import { texts } from './messages.ts'

export interface MatrixTableProps {
  matrix: RetentionMatrix
  /** Who is counted. */
  actor: Actor
  /** Whether week 0 counts like any other week (a return event is chosen). */
  isWeek0Counted: boolean
  /** The row whose curve is drawn; undefined: the average alone. */
  shown: number | undefined
  /** The row that stays. */
  pinned: number | undefined
  onShow: (weekStart: number | undefined) => void
  /** A click keeps the row until the next one. */
  onPin: (weekStart: number) => void
}

/** Week by week, the average first. What is in progress is hatched within a dashed line, and says so. */
export function MatrixTable({ matrix, actor, isWeek0Counted, shown, pinned, onShow, onPin }: MatrixTableProps) {
  const { average, cohorts, timezone, weeks } = matrix
  const range = tintedRange(matrix, isWeek0Counted)
  const numbers = Array.from({ length: weeks }, (_, week) => week)
  const cells = (rows: readonly (RetentionRow | CompletableRow)[], isAverage: boolean) =>
    numbers.map((week) => {
      const row = rows.find((each) => each.week === week)
      if (row === undefined || row.cohort_size === 0) return <td key={week} />
      const isOpen = 'complete' in row && !row.complete
      const heat = isTinted(row, isWeek0Counted) ? heatOf(row.retention_rate, range) : 0
      return (
        <td
          key={week}
          class={`heat${isOpen ? ' in-progress' : ''}`}
          style={{ '--heat': isAverage ? 0 : heat }}
          title={`${texts.cell(actor, row.returning_users, row.cohort_size)}${isOpen ? `, ${texts.inProgress}` : ''}`}
        >
          <Num value={row.retention_rate} kind="percent" />
          {isOpen ? <span class="hidden-text">, {texts.inProgress}</span> : null}
        </td>
      )
    })
  return (
    <div class="matrix" role="group" aria-label={texts.scroll} tabIndex={0}>
      <table>
        <caption class="hidden-text">{texts.table}</caption>
        <thead>
          <tr>
            <th scope="col">{texts.weekOfFirst}</th>
            <th scope="col">{texts.counted[actor]}</th>
            {numbers.map((week) => (
              <th key={week} scope="col" aria-label={texts.week(week)}>
                {week === 0 ? texts.week(0) : week}
              </th>
            ))}
          </tr>
        </thead>
        <tbody onPointerLeave={() => onShow(undefined)}>
          <tr class="average">
            <th scope="row" title={texts.averageHint}>
              {texts.average}
            </th>
            <td />
            {cells(average, true)}
          </tr>
          {cohorts.toReversed().map(({ week_start, size, retention_by_week }) => (
            <tr
              key={week_start}
              class={shown === week_start ? 'open' : undefined}
              onPointerEnter={() => onShow(week_start)}
            >
              <th scope="row">
                {size === 0 ? (
                  <span class="muted">{formatDate(week_start, timezone)}</span>
                ) : (
                  <button
                    type="button"
                    class="bar-name"
                    aria-pressed={pinned === week_start}
                    onFocus={() => onShow(week_start)}
                    onBlur={() => onShow(undefined)}
                    onClick={() => onPin(week_start)}
                  >
                    {formatDate(week_start, timezone)}
                  </button>
                )}
              </th>
              <td>
                <Num value={size} />
              </td>
              {cells(retention_by_week, false)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
