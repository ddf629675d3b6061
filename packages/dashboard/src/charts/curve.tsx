import { formatNumber } from '../format/numbers.ts'

export interface CurvePoint {
  label: string
  /** Percent. */
  value: number
  /** False: the value still changes. */
  isComplete: boolean
}

export interface CurveLine {
  name: string
  kind: 'main' | 'compare'
  points: readonly CurvePoint[]
}

export interface CurveProps {
  /** Says what is shown, with the latest value. */
  caption: string
  lines: readonly CurveLine[]
}

const step = 10

/** The end of the axis: the next ten percent above all values. */
const topOf = (lines: readonly CurveLine[]) =>
  Math.max(
    step,
    Math.ceil(Math.max(0, ...lines.flatMap(({ points }) => points.map(({ value }) => value))) / step) * step,
  )

/**
 * Weekly percentages as straight lines on an axis from 0; the part whose values may still change is dashed. All lines
 * start at the first week of the longest.
 */
export function Curve({ caption, lines }: CurveProps) {
  const top = topOf(lines)
  const labels = lines.reduce<readonly CurvePoint[]>(
    (longest, { points }) => (points.length > longest.length ? points : longest),
    [],
  )
  const last = Math.max(1, labels.length - 1)
  const x = (at: number) => (at / last) * 100
  const y = (value: number) => 100 - (value / top) * 100
  const path = (points: readonly CurvePoint[], from: number) =>
    points.map(({ value }, at) => `${at === 0 ? 'M' : 'L'}${x(from + at)} ${y(value)}`).join('')
  return (
    <figure class="curve" aria-label={caption}>
      <div class="curve-plot" role="img" aria-label={caption}>
        {[top, top / 2, 0].map((value) => (
          <span key={value} class="curve-grid label" style={{ insetBlockStart: `${y(value)}%` }}>
            <span>{formatNumber(value)}%</span>
          </span>
        ))}
        <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
          {lines.map(({ name, kind, points }) => {
            const open = points.findIndex(({ isComplete }) => !isComplete)
            const solid = open === -1 ? points.length : open
            const dashedFrom = Math.max(0, solid - 1)
            return (
              <g key={name} class={kind}>
                <path d={path(points.slice(0, solid), 0)} />
                {open === -1 ? null : <path class="unfinished" d={path(points.slice(dashedFrom), dashedFrom)} />}
              </g>
            )
          })}
        </svg>
        {lines.map(({ name, kind, points }) =>
          points.map(({ label, value, isComplete }, at) => (
            <span
              key={`${name} ${label}`}
              class={`curve-dot ${kind}${isComplete ? '' : ' unfinished'}`}
              style={{ insetInlineStart: `${x(at)}%`, insetBlockStart: `${y(value)}%` }}
            />
          )),
        )}
      </div>
      <figcaption class="curve-axis label" aria-hidden="true">
        <span>{labels[0]?.label}</span>
        <span class="curve-names">
          {lines.map(({ name, kind }) => (
            <span key={name} class={`curve-name ${kind}`}>
              <bdi>{name}</bdi>
            </span>
          ))}
        </span>
        <span>{labels.length > 1 ? labels.at(-1)?.label : ''}</span>
      </figcaption>
    </figure>
  )
}
